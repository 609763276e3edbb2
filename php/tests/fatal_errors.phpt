--TEST--
Fatal errors of all kinds: the message, the shutdown function and what it allocates, the exit status
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$before = 'register_shutdown_function(function () { echo strlen(str_repeat("s", 3000000)), " ", error_get_last()["type"] ?? "none", "\n"; });';
$kinds = [
    'undefined' => 'nowhere(range(1, 10000));',
    'uncaught' => 'function thrower($x) { throw new RuntimeException("out"); } thrower(range(1, 1000));',
    'chained' => 'try { nowhere(); } catch (Error $e) { throw new LogicException(str_repeat("long ", 3), 0, $e); }',
    'compiled twice' => 'eval("class Twice {} class Twice {}");',
    'parse' => 'eval("this is no PHP {{{");',
    'user' => 'trigger_error("by the user", E_USER_ERROR);',
    'type' => '(function (int $x) {})("no number");',
    'in a buffer' => 'ob_start(fn ($text) => strtoupper($text)); echo "in a buffer"; nowhere();',
    'in a callback' => '$list = range(1, 1000); usort($list, fn ($a, $b) => nowhere());',
    'in a generator' => 'function generate() { $held = range(1, 10000); yield 1; nowhere(); } foreach (generate() as $x) {}',
    'in a fiber' => '$fiber = new Fiber(function () { $held = range(1, 10000); nowhere(); }); $fiber->start();',
    'in a destructor' => 'class Last { function __destruct() { nowhere(); } } $last = new Last; unset($last);',
    'in the shutdown' => 'register_shutdown_function(function () { nowhere(); });',
    'abstract' => 'abstract class Shape { abstract function area(); } eval("class Square extends Shape {}");',
];
foreach ($kinds as $kind => $code) {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'display_errors=1', '-d', 'html_errors=0', '-d', 'log_errors=0', '-d',
        'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-r', $before . $code], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $text = stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]);
    // The first line of the message, and what the shutdown function said.
    preg_match('/^(?:PHP )?((?:Fatal|Parse) error: .*)$/mi', $text, $message);
    preg_match_all('/^\d{7} \w+/m', $text, $shutdown);
    echo "$kind: ", preg_replace('/ in Command line.*/i', '', $message[1] ?? $text), ' | ', implode(', ', $shutdown[0]);
    echo str_contains($text, 'IN A BUFFER') ? ' | buffer kept' : '', ' | ', proc_close($process), "\n";
}
?>
--EXPECTF--
undefined: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
uncaught: Fatal error: Uncaught RuntimeException: out | 3000000 1 | 255
chained: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
compiled twice: Fatal error: %r(Cannot declare class Twice, because the name is already in use|Cannot redeclare class Twice \(previously declared)%r | 3000000 64 | 255
parse: Parse error: syntax error, unexpected identifier "is" | 3000000 4 | 255
user: Fatal error: by the user | 3000000 256 | 255
type: Fatal error: Uncaught TypeError: {closure%S}(): Argument #1 ($x) must be of type int, string given, called | 3000000 1 | 255
in a buffer: FATAL ERROR: UNCAUGHT ERROR: CALL TO UNDEFINED FUNCTION NOWHERE() | 3000000 1 | buffer kept | 255
in a callback: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
in a generator: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
in a fiber: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
in a destructor: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 1 | 255
in the shutdown: Fatal error: Uncaught Error: Call to undefined function nowhere() | 3000000 none | 255
abstract: Fatal error: Class Square contains 1 abstract method and must therefore be declared abstract or implement the remaining methods (Shape::area) | 3000000 1 | 255
