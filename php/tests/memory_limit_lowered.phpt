--TEST--
memory_limit can be set below what freed blocks took: what has none in use does not count
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--INI--
memory_limit=128M
--FILE--
<?php
$texts = [];
for ($i = 0; $i < 10000; $i++) $texts[] = str_repeat('x', 5000);
unset($texts);
var_dump(ini_set('memory_limit', '20M'));
for ($i = 0; $i < 5; $i++) $texts[] = str_repeat('y', 3 << 20);
echo strlen(implode($texts)), "\n";
?>
--EXPECTF--
string(4) "128M"

Fatal error: Allowed memory size of 20971520 bytes exhausted (tried to allocate %d bytes) in %s on line 7
