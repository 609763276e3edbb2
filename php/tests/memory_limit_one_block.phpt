--TEST--
A block above memory_limit is refused, whatever its size
--EXTENSIONS--
pagewise
--INI--
memory_limit=16M
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
if (($argv[1] ?? '') !== '') {
    echo strlen(str_repeat('x', (int) $argv[1]));
    exit;
}
foreach (['20000000', '3000000000', (string) (1 << 45), (string) (1 << 60)] as $size) {
    $command = [PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'memory_limit=16M'];
    $process = proc_open([...$command, __FILE__, $size], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $text = trim(stream_get_contents($pipes[1]));
    echo preg_replace('/ in .*| on line.*/', '', $text), ' | ', proc_close($process), "\n";
}
?>
--EXPECTF--
Fatal error: Allowed memory size of 16777216 bytes exhausted (tried to allocate %d bytes) | 255
Fatal error: Allowed memory size of 16777216 bytes exhausted (tried to allocate %d bytes) | 255
Fatal error: Allowed memory size of 16777216 bytes exhausted (tried to allocate %d bytes) | 255
Fatal error: Allowed memory size of 16777216 bytes exhausted (tried to allocate %d bytes) | 255
