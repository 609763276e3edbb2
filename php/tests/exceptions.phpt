--TEST--
Exceptions through deep stacks, generators, fibers and destructors
--EXTENSIONS--
pagewise
--FILE--
<?php
class Guard {
    function __construct(public $name) {}
    function __destruct() { echo "-$this->name "; }
}
function deep($n) {
    $guard = $n % 100 ? null : new Guard($n);
    $text = str_repeat('x', $n);
    return $n ? deep($n - 1) . $text : throw new LogicException('bottom');
}
try { deep(300); } catch (LogicException $e) { echo $e->getMessage(), ' ', count($e->getTrace()), "\n"; }
unset($e);
function generate() { $guard = new Guard('generator'); try { yield 1; yield 2; } finally { echo "finally "; } }
foreach (generate() as $value) { break; }
echo "\n";
$fiber = new Fiber(function () { $guard = new Guard('fiber'); Fiber::suspend(str_repeat('y', 100000)); throw new Exception('out of the fiber'); });
echo strlen($fiber->start()), "\n";
try { $fiber->resume(); } catch (Exception $e) { echo $e->getMessage(), "\n"; }
for ($i = 0; $i < 100; $i++) {
    $unfinished[] = $f = new Fiber(function () { $array = range(1, 1000); Fiber::suspend(); });
    $f->start();
}
set_exception_handler(function ($e) { echo 'handler: ', $e->getMessage(), ' ', strlen(str_repeat('z', 1000000)), "\n"; });
throw new Exception('uncaught');
?>
--EXPECT--
-0 -100 -200 -300 bottom 301
finally -generator 
100000
-fiber out of the fiber
handler: uncaught 1000000
