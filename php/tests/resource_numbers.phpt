--TEST--
Numbers of resources are what they are without us
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$code = 'for ($i = 0; $i < 40; $i++) $f[$i % 3] = fopen("php://memory", "r");
    echo get_resource_id(fopen("php://memory", "r")), " ", implode(",", array_keys(get_resources()));';
$with = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-r', $code], [1 => ['pipe', 'w']], $one);
$without = proc_open([PHP_BINARY, '-n', '-r', $code], [1 => ['pipe', 'w']], $other);
$text = stream_get_contents($one[1]);
var_dump($text !== '', $text === stream_get_contents($other[1]));
?>
--EXPECT--
bool(true)
bool(true)
