--TEST--
memory_hard_limit_percent ends the process as it does without us
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
// One internal function, which the interpreter cannot interrupt, and which cannot live with NULL.
$code = 'array_map(null, ...array_fill(0, 6, range(1, 200000))); echo "no";';
foreach ([['-n'], ['-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY')]] as $options) {
    $process = proc_open([PHP_BINARY, ...$options, '-d', 'memory_limit=24M', '-d', 'memory_hard_limit_percent=100', '-r', $code],
        [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $text = trim(stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]));
    $status = proc_close($process);
    echo preg_replace('/tried to allocate \d+/', 'tried to allocate N', $text), " | $status\n";
}
?>
--EXPECTF--
Hard memory limit of 25165824 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
Hard memory limit of 25165824 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
