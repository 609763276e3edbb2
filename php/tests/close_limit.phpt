--TEST--
The end of a request with a long list of resources takes no memory that its memory_limit has not
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$script = <<<'SCRIPT'
class Wrapper {
    public $context;
    function stream_open($path) { return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() {
        echo "the data is saved";
        for ($i = 0; $i < 3; $i++); // where an error that was put off is raised
        echo ", closed ";
    }
}
stream_wrapper_register('probe', 'Wrapper');
$stream = fopen('probe://x', 'w');
for ($i = 0; $i < 120000; $i++) {
    $contexts[] = stream_context_create();
}
if ($argv[1] === 'one') {
    $contexts = null; // the list keeps its size
    gc_mem_caches();
}
ini_set('memory_limit', memory_get_usage(true) + 1000000);
SCRIPT;
foreach (['many', 'one'] as $left) {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'log_errors=0', '-r', $script,
        $left], [1 => ['pipe', 'w']], $pipes);
    echo "$left: ", stream_get_contents($pipes[1]), proc_close($process), "\n";
}
?>
--EXPECT--
many: the data is saved, closed 0
one: the data is saved, closed 0
