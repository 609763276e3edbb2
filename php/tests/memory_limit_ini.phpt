--TEST--
memory_limit can be read, raised, lowered and lifted, and not set below what is in use
--EXTENSIONS--
pagewise
--INI--
memory_limit=64M
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--FILE--
<?php
var_dump(ini_get('memory_limit'), ini_set('memory_limit', '100M'), ini_get('memory_limit'));
$large = str_repeat('x', 80000000);
var_dump(ini_set('memory_limit', '50M'), ini_get('memory_limit'));
var_dump(ini_set('memory_limit', '0'));
var_dump(ini_set('memory_limit', '-1'));
$larger = str_repeat('y', 200000000);
unset($large, $larger);
ini_restore('memory_limit');
var_dump(ini_get('memory_limit'));
?>
--EXPECTF--
string(3) "64M"
string(3) "64M"
string(4) "100M"

Warning: Failed to set memory limit to 52428800 bytes (Current memory usage is %d bytes) in %s on line %d
bool(false)
string(4) "100M"

Warning: Failed to set memory limit to 0 bytes (Current memory usage is %d bytes) in %s on line %d
bool(false)
string(4) "100M"
string(3) "64M"
