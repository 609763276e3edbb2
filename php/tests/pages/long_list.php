<?php
// What is destroyed one by one, each with what it holds, overflows the stack here.
class Node { public $next; }
ini_set('memory_limit', -1);
for ($list = null, $i = 0; $i < 500000; $i++) {
    $node = new Node;
    $node->next = $list;
    $list = $node;
}
$nested = [];
for ($i = 0; $i < 500000; $i++) {
    $nested = [$nested];
}
// A form, JSON and nothing differ in the resources that PHP has made before the page.
echo $_SERVER['REQUEST_METHOD'], ' ', strlen(file_get_contents('php://input')), ' ', count($_POST), ' ',
    get_resource_id(fopen('php://memory', 'r')), ' ', implode(',', array_keys(get_resources())), "\n";
