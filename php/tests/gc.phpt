--TEST--
Cycles are collected and their memory is used again
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--INI--
memory_limit=32M
--FILE--
<?php
class Node { public $other; public $data; }
function cycles($n) {
    for ($i = 0; $i < $n; $i++) {
        $one = new Node; $two = new Node;
        $one->other = $two; $two->other = $one;
        $one->data = str_repeat('x', 500);
    }
}
cycles(1000);
gc_collect_cycles();
$before = memory_get_usage();
cycles(200000); // 120 MB, if nothing were collected
gc_collect_cycles();
var_dump(gc_collect_cycles());
var_dump(memory_get_usage() - $before < 1000000);
var_dump(gc_status()['runs'] > 1);
?>
--EXPECT--
int(0)
bool(true)
bool(true)
