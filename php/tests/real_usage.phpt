--TEST--
memory_get_usage(true) and its peak are of the order that PHP alone has, in a worker that never asks for memory back as well
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!in_array(pagewise_status()['mode'], ['transaction', 'pass-through'])) die('skip frees are not counted in this mode'); ?>
--FILE--
<?php
$scripts = [
    'nothing' => '',
    'strings' => '$all = []; for ($i = 0; $i < 200000; $i++) $all[] = "string number $i";',
    'array' => '$all = range(1, 1000000);',
    'one block' => '$all = str_repeat("x", 50 << 20);',
    'objects' => '$all = []; for ($i = 0; $i < 100000; $i++) $all[] = new ArrayObject([$i]);',
    'freed' => '$all = []; for ($i = 0; $i < 200000; $i++) $all[] = "string number $i"; $all = null; gc_mem_caches();',
    'sizes' => 'foreach ([3500, 5000, 9000, 17000, 30000, 70000] as $size) { $all = []; for ($i = 0; $i < 40000000 / $size; $i++) $all[] = str_repeat("x", $size); $all = null; }',
    'jobs' => 'for ($job = 0; $job < 20; $job++) { $all = []; for ($i = 0; $i < 20000; $i++) $all[] = str_repeat("x", 40 + $job * 60 + $i % 30); }',
];
function figures(string $script, string $mode): array {
    $process = proc_open([PHP_BINARY, '-d', 'memory_limit=-1', '-d', "pagewise.mode=$mode", '-d', 'extension_dir=' . ini_get('extension_dir'),
        '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-n', '-r', "$script echo memory_get_usage(true), ' ', memory_get_peak_usage(true);"],
        [1 => ['pipe', 'w']], $pipes, null, ['PAGEWISE_PHP_MODE' => $mode] + getenv());
    $text = stream_get_contents($pipes[1]);
    proc_close($process);
    return explode(' ', $text);
}
foreach ($scripts as $name => $script) {
    [$own, $ownPeak] = figures($script, 'off');
    [$real, $peak] = figures($script, pagewise_status()['mode']);
    if ($real % (2 << 20) !== 0 && pagewise_status()['mode'] === 'transaction') echo "$name: $real is no number of chunks\n";
    if ($real > 1.3 * $own + (4 << 20) || $peak > 1.3 * $ownPeak + (4 << 20)) echo "$name: PHP alone $own, peak $ownPeak; here $real, peak $peak\n";
    if (!in_array($name, ['sizes', 'jobs']) && $peak < .6 * $ownPeak - (2 << 20)) echo "$name: PHP alone has a peak of $ownPeak; here $peak\n";
    if ($name === 'nothing' && $real !== $own) echo "$name: PHP alone $own, here $real\n";
}
echo "done\n";
?>
--EXPECT--
done
