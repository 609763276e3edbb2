--TEST--
A stream's closing at the end of a request opens another one: PHP's list of resources may be ordered anew
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$script = <<<'SCRIPT'
class Wrapper {
    public $context;
    private $name;
    function stream_open($path) { $this->name = substr($path, 8); return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() {
        echo $this->name, ' ';
        if ($this->name === 'last') {
            $GLOBALS['new'] = fopen('php://memory', 'r'); // where no slot is free, those in use move to the front
        } else {
            $GLOBALS['last'] = null;
            for ($i = 1000000; $i < 1001000; $i++) {
                $GLOBALS['texts'][] = "$i"; // as large as a resource: one lies where the last one was
            }
        }
    }
}
stream_wrapper_register('probe', 'Wrapper');
$first = fopen('probe://first', 'w');
for ($i = 0; $i < $argv[1]; $i++) {
    $stream = fopen('php://memory', 'r');
}
$last = fopen('probe://last', 'w');
SCRIPT;
$answers = [];
for ($streams = 0; $streams < 40; $streams++) {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-r', $script, $streams],
        [1 => ['pipe', 'w']], $pipes);
    $text = stream_get_contents($pipes[1]);
    $answers[] = $text . proc_close($process);
}
echo implode("\n", array_unique($answers));
?>
--EXPECT--
last first 0
