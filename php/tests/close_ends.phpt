--TEST--
What a stream's closing at the end of a request ends by (exit, an error, a limit) is the status, and all is freed fast
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$script = <<<'SCRIPT'
function finish($how) {
    if ($how === 'exit') exit(3);
    if ($how === 'error') throw new Error('in the middle of closing');
    if ($how === 'limit') return str_repeat('x', PHP_INT_MAX >> 8);
    set_time_limit(1);
    while (true);
}
class Wrapper {
    public $context;
    function stream_open($path) { return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() { finish($GLOBALS['argv'][1]); }
}
class Filter extends php_user_filter {
    function onClose(): void { finish($GLOBALS['argv'][1]); }
}
class Node { public $next; }
if ($argv[2] === 'wrapper') {
    stream_wrapper_register('probe', 'Wrapper');
    $stream = fopen('probe://x', 'w');
} else {
    stream_filter_register('probe', 'Filter');
    $stream = fopen('php://memory', 'w');
    stream_filter_append($stream, 'probe');
}
for ($list = null, $i = 0; $i < $argv[3]; $i++) {
    $node = new Node;
    $node->next = $list;
    $list = $node;
}
echo 'the answer';
SCRIPT;
foreach (['exit', 'error', 'limit', 'time'] as $how) {
    foreach (['wrapper', 'filter'] as $what) {
        foreach ($how === 'time' ? [10] : [10, 500000] as $nodes) {
            $command = [PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'memory_limit=512M',
                '-d', 'html_errors=0', '-d', 'log_errors=0', '-d', 'display_errors=1', '-r', $script, $how, $what, $nodes];
            $process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
            $text = stream_get_contents($pipes[1]);
            $first = strtok($text, "\n");
            $error = preg_match('/(Fatal error: [A-Za-z ]*)/', $text, $words) ? trim($words[1]) : '-';
            echo "$how, $what, $nodes nodes: $first, ", proc_close($process), ", $error\n";
        }
    }
}
?>
--EXPECT--
exit, wrapper, 10 nodes: the answer, 3, -
exit, wrapper, 500000 nodes: the answer, 3, -
exit, filter, 10 nodes: the answer, 3, -
exit, filter, 500000 nodes: the answer, 3, -
error, wrapper, 10 nodes: the answer, 255, Fatal error: Uncaught Error
error, wrapper, 500000 nodes: the answer, 255, Fatal error: Uncaught Error
error, filter, 10 nodes: the answer, 255, Fatal error: Uncaught Error
error, filter, 500000 nodes: the answer, 255, Fatal error: Uncaught Error
limit, wrapper, 10 nodes: the answer, 255, Fatal error: Allowed memory size of
limit, wrapper, 500000 nodes: the answer, 255, Fatal error: Allowed memory size of
limit, filter, 10 nodes: the answer, 255, Fatal error: Allowed memory size of
limit, filter, 500000 nodes: the answer, 255, Fatal error: Allowed memory size of
time, wrapper, 10 nodes: the answer, 255, Fatal error: Maximum execution time of
time, filter, 10 nodes: the answer, 255, Fatal error: Maximum execution time of
