<?php
// Prepended to every application: what a web server would have set, and marks of the request's begin
// and end for the trace, two strings whose sizes nothing else has (cut.py knows them).
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = getenv('PAGEWISE_URI') ?: '/';
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = strtok($_SERVER['REQUEST_URI'], '?');
$_SERVER['SERVER_NAME'] = $_SERVER['HTTP_HOST'] = 'localhost';
$_SERVER['SERVER_PORT'] = '80';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
$_SERVER['REMOTE_ADDR'] = '127.0.0.1';
parse_str(parse_url($_SERVER['REQUEST_URI'], PHP_URL_QUERY) ?? '', $_GET);
$_REQUEST = $_GET;
str_repeat('b', 7654320 - 32);
register_shutdown_function(fn () => str_repeat('e', 7654328 - 32));
