--TEST--
Objects whose destructors come too late to be called, with long lists: an error as without us, and all is freed fast
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$script = <<<'SCRIPT'
class Destructor {
    function __destruct() { echo 'called'; }
}
class Wrapper {
    public $context;
    function stream_open($path) { return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() {
        for ($i = 0; $i < $GLOBALS['argv'][1]; $i++) {
            $key = new Destructor;
            $map = new WeakMap;
            $map[$key] = new Destructor;
            $GLOBALS['kept'][] = [$map, $key];
        }
    }
}
class Node { public $next; }
stream_wrapper_register('probe', 'Wrapper');
$stream = fopen('probe://x', 'w');
for ($list = null, $i = 0; $i < $argv[2]; $i++) {
    $node = new Node;
    $node->next = $list;
    $list = $node;
}
echo 'the answer';
SCRIPT;
foreach ([1, 3] as $maps) {
    foreach ([10, 500000] as $nodes) {
        $process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'memory_limit=512M',
            '-d', 'html_errors=0', '-d', 'log_errors=0', '-d', 'display_errors=1', '-r', $script, $maps, $nodes], [1 => ['pipe', 'w']], $pipes);
        $text = stream_get_contents($pipes[1]);
        $has_error = str_contains($text, "Couldn't execute method Destructor::__destruct");
        $has_ended = in_array(proc_close($process), [0, 255], true); // PHP alone leaves the rest of the shutdown out: 0
        echo "$maps, $nodes nodes: ", strtok($text, "\n"), $has_error ? ', error' : '', $has_ended ? ', ended' : ', crashed', "\n";
    }
}
?>
--EXPECT--
1, 10 nodes: the answer, error, ended
1, 500000 nodes: the answer, error, ended
3, 10 nodes: the answer, error, ended
3, 500000 nodes: the answer, error, ended
