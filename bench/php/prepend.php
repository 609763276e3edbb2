<?php
// For counting instructions of one page in php-cgi: what a web server would have set.
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = getenv('PAGEWISE_URI') ?: '/';
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = strtok($_SERVER['REQUEST_URI'], '?');
$_SERVER['QUERY_STRING'] = parse_url($_SERVER['REQUEST_URI'], PHP_URL_QUERY) ?? '';
$_SERVER['SERVER_NAME'] = $_SERVER['HTTP_HOST'] = 'localhost';
$_SERVER['SERVER_PORT'] = '80';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
$_SERVER['REMOTE_ADDR'] = '127.0.0.1';
parse_str($_SERVER['QUERY_STRING'], $_GET);
$_REQUEST = $_GET;
