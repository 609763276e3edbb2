--TEST--
memory_limit ends a request with PHP's own error, and shutdown functions run
--EXTENSIONS--
pagewise
--INI--
memory_limit=16M
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing: what runs at the end is over the limit as well'); ?>
--FILE--
<?php
register_shutdown_function(function () {
    $error = error_get_last();
    echo "shutdown: ", strtok($error['message'], '('), "\n";
    // There is room for what must run now.
    $rows = [];
    for ($i = 0; $i < 1000; $i++) $rows[] = "row $i";
    for ($size = 16; $size < 16000; $size += $size >> 2) $rows[] = str_repeat('x', $size);
    echo count($rows), " rows\n";
});
function fill() {
    $rows = [];
    for (;;) $rows[] = str_repeat('x', 1000) . count($rows);
}
fill();
echo "never reached\n";
?>
--EXPECTF--
Fatal error: Allowed memory size of 16777216 bytes exhausted (tried to allocate %d bytes) in %s on line %d
shutdown: Allowed memory size of 16777216 bytes exhausted 
1032 rows
