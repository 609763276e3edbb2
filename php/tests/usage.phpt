--TEST--
memory_get_usage() and memory_get_peak_usage() count what is in use
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!in_array(pagewise_status()['mode'], ['transaction', 'pass-through'])) die('skip frees are not counted in this mode'); ?>
--FILE--
<?php
function near($bytes, $expected) { return $bytes >= $expected && $bytes <= $expected * 1.4 + 4096; }

$start = memory_get_usage();
var_dump($start > 100000, memory_get_usage(true) >= $start);

$large = str_repeat('x', 1000000);
var_dump(near(memory_get_usage() - $start, 1000000));
var_dump(memory_get_peak_usage() >= $start + 1000000);
unset($large);
var_dump(memory_get_usage() - $start < 4096);
var_dump(memory_get_peak_usage() >= $start + 1000000);
memory_reset_peak_usage();
var_dump(memory_get_peak_usage() < $start + 500000);

// Small blocks: counted when they come and when they go, by class.
$before = memory_get_usage();
$strings = [];
for ($i = 0; $i < 20000; $i++) $strings[] = "string number $i";
$with = memory_get_usage();
var_dump($with - $before > 20000 * 40);
$strings = null;
var_dump(abs(memory_get_usage() - $before) < 1024);
var_dump(memory_get_peak_usage() >= $with, memory_get_peak_usage(true) >= memory_get_peak_usage());

// Strings that grow through all classes leave nothing behind.
$before = memory_get_usage();
for ($round = 0; $round < 10; $round++) {
    $text = '';
    for ($i = 0; $i < 20000; $i++) $text .= 'some more of it ';
    $text = null;
}
var_dump(abs(memory_get_usage() - $before) < 1024);
try {
    memory_get_usage([]);
} catch (TypeError $e) {
    echo $e->getMessage(), "\n";
}
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
memory_get_usage(): Argument #1 ($real_usage) must be of type bool, array given
