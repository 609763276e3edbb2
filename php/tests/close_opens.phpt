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
// The same with streams that are gone by then: gaps in the list, and a stream freed whose copy PHP may come to.
$gaps = <<<'SCRIPT'
class Wrapper {
    public $context;
    private $name;
    function stream_open($path) { $this->name = substr($path, 8); return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() {
        echo $this->name, ' ';
        if ($this->name === 'gaps') {
            $GLOBALS['gone'] = null;
        } elseif ($this->name === 'opener') {
            $GLOBALS['new'] = fopen('php://memory', 'r');
        } elseif ($this->name === 'killer') {
            $GLOBALS['victim'] = null;
            for ($i = 1000000; $i < 1001000; $i++) {
                $GLOBALS['texts'][] = "$i";
            }
        }
    }
}
stream_wrapper_register('probe', 'Wrapper');
for ($i = 0; $i < $argv[1]; $i++) {
    $first[] = fopen('php://memory', 'r');
}
for ($i = 0; $i < $argv[2]; $i++) {
    $gone[] = fopen('php://memory', 'r');
}
$victim = fopen('probe://victim', 'w');
$killer = fopen('probe://killer', 'w');
for ($i = 0; $i < $argv[3]; $i++) {
    $more[] = fopen('php://memory', 'r');
}
$opener = fopen('probe://opener', 'w');
$last = fopen('probe://gaps', 'w');
SCRIPT;
function answer($script, ...$numbers) {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-r', $script, ...$numbers],
        [1 => ['pipe', 'w']], $pipes);
    $text = stream_get_contents($pipes[1]);
    return $text . proc_close($process);
}
$answers = [];
for ($streams = 0; $streams < 40; $streams++) {
    $answers[] = answer($script, $streams);
    $answers[] = answer($gaps, $streams % 14, 4 + $streams % 11, $streams & 1);
}
$answers[] = answer($gaps, 0, 6, 0);
$answers[] = answer($gaps, 8, 13, 1);
echo implode("\n", array_unique($answers));
?>
--EXPECT--
last first 0
gaps opener killer victim 0
