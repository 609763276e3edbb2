--TEST--
A checked heap takes time in proportion to what is allocated, also where it grows after much was freed
--EXTENSIONS--
pagewise
--SKIPIF--
<?php
if (pagewise_status()['mode'] !== 'transaction') die('skip transaction heap only');
if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php');
?>
--FILE--
<?php
const CODE = <<<'PHP'
$start = getrusage();
$all = [];
for ($i = 0; $i < N; $i++) $all[] = str_repeat('x', 30 + $i % 3);
$used = memory_get_usage();
$all = null;
$left = memory_get_usage();
for ($i = 0; $i < N; $i++) $all[] = str_repeat('y', 100 + $i % 5);
$end = getrusage();
echo $end['ru_utime.tv_sec'] - $start['ru_utime.tv_sec'] + ($end['ru_utime.tv_usec'] - $start['ru_utime.tv_usec']) / 1e6,
    $used > N * 50 && $left < 1000000 ? '' : " used $used, then $left";
PHP;
function seconds(int $blocks): string {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'memory_limit=-1', '-d', 'pagewise.mode=transaction', '-d', 'pagewise.checked=1',
        '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-r', str_replace('N', (string) $blocks, CODE)], [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
    $text = stream_get_contents($pipes[1]);
    proc_close($process);
    return $text;
}
$few = seconds(50000);
$many = seconds(400000);
if (!is_numeric($few) || !is_numeric($many)) die("$few, $many\n");
var_dump($many < max($few, .05) * 8 * 3); // quadratic would be 64 times
?>
--EXPECT--
bool(true)
