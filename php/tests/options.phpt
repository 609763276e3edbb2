--TEST--
Huge pages, other segments, memory given back, and a checked heap that finds nothing
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$code = <<<'PHP'
$rows = [];
for ($i = 0; $i < 30000; $i++) {
    $rows[$i % 3000] = ["text $i", str_repeat('x', $i % 700), new ArrayObject([$i])];
    if ($i % 5000 === 0) $rows["large$i"] = str_repeat('y', $i * 100);
}
$text = json_encode(array_keys($rows));
echo pagewise_status()['mode'], ' ', count($rows), ' ', strlen($text), ' ', memory_get_usage() > 1000000 ? 'counted' : 'not counted', "\n";
PHP;
foreach ([['huge_pages=1'], ['segment_size=16K'], ['segment_size=256K'], ['return_memory=1'], ['checked=1'], ['mode=region', 'huge_pages=1']] as $options) {
    $arguments = [];
    foreach ($options as $option) array_push($arguments, '-d', "pagewise.$option");
    $process = proc_open([PHP_BINARY, '-n', '-d', 'memory_limit=-1', '-d', 'pagewise.mode=transaction', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), ...$arguments, '-r', $code],
        [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, null, []);
    echo implode(' ', $options), ': ', stream_get_contents($pipes[1]), stream_get_contents($pipes[2]);
    if ($status = proc_close($process)) echo "exit $status\n";
}
?>
--EXPECT--
huge_pages=1: transaction 3006 13964 counted
segment_size=16K: transaction 3006 13964 counted
segment_size=256K: transaction 3006 13964 counted
return_memory=1: transaction 3006 13964 counted
checked=1: transaction 3006 13964 counted
mode=region huge_pages=1: region 3006 13964 counted
