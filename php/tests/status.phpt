--TEST--
pagewise_status() says what requests are served from
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] !== 'transaction') die('skip transaction heap only'); ?>
--FILE--
<?php
$status = pagewise_status();
var_dump($status['mode'], $status['huge_pages'], $status['requests']);
$before = $status['live_blocks'];
$strings = [];
for ($i = 0; $i < 1000; $i++) $strings[] = str_repeat('x', 40) . $i;
var_dump(pagewise_status()['live_blocks'] - $before > 1000);
var_dump($status['live_bytes'] + $status['free_bytes'] + $status['fresh_bytes'] <= $status['segment_bytes']);
ob_start();
phpinfo(INFO_MODULES);
var_dump(str_contains(ob_get_clean(), 'Requests on => transaction heap'));
?>
--EXPECT--
string(11) "transaction"
bool(false)
int(1)
bool(true)
bool(true)
bool(true)
