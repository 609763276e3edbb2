--TEST--
A memory_limit below what PHP always has in use is refused as without us, in php.ini and by ini_set()
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$code = <<<'PHP'
var_dump(ini_get('memory_limit'));
foreach (['0', '1M', '2097151', '2M', '-1'] as $limit) {
    var_dump(ini_set('memory_limit', $limit), ini_get('memory_limit'));
}
PHP;
function run($limit, ...$options) {
    global $code;
    $process = proc_open([PHP_BINARY, '-n', ...$options, '-d', "memory_limit=$limit", '-r', $code], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $text = stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]);
    return $text . 'exit ' . proc_close($process);
}
foreach (['0', '1M', '2M', '64M', '-1'] as $limit) {
    $own = run($limit);
    $ours = run($limit, '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'));
    echo "$limit: ", $own === $ours ? 'the same' : "$own\n---\n$ours", "\n";
}
echo $ours, "\n";
?>
--EXPECT--
0: the same
1M: the same
2M: the same
64M: the same
-1: the same
string(2) "-1"

Warning: Failed to set memory limit to 0 bytes (Current memory usage is 2097152 bytes) in Command line code on line 3
bool(false)
string(2) "-1"

Warning: Failed to set memory limit to 1048576 bytes (Current memory usage is 2097152 bytes) in Command line code on line 3
bool(false)
string(2) "-1"

Warning: Failed to set memory limit to 2097151 bytes (Current memory usage is 2097152 bytes) in Command line code on line 3
bool(false)
string(2) "-1"
string(2) "-1"
string(2) "2M"
string(2) "2M"
string(2) "-1"
exit 0
