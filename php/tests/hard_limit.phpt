--TEST--
memory_hard_limit_percent ends the process as it does without us, and so does its default
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
// The compiler, which the interpreter cannot interrupt, and which cannot live with NULL.
$code = 'eval("return [" . str_repeat("[1,2,3],", 150000) . "];"); echo "no";';
$plain = ['-n', '-d', 'memory_limit=24M'];
$ours = [...$plain, '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY')];
$percent = ['-d', 'memory_hard_limit_percent=100'];
foreach ([[...$plain, ...$percent], [...$ours, ...$percent], $plain, $ours] as $options) {
    $process = proc_open([PHP_BINARY, ...$options, '-r', $code],
        [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $text = trim(stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]));
    $status = proc_close($process);
    echo preg_replace('/tried to allocate \d+/', 'tried to allocate N', $text), " | $status\n";
}
?>
--EXPECTF--
Hard memory limit of 25165824 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
Hard memory limit of 25165824 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
Hard memory limit of 50331648 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
Hard memory limit of 50331648 bytes exhausted (tried to allocate N bytes) in Command line code on line 1 | 137
