--TEST--
What opcache preloads is there in the request, and its shutdown is as fast
--EXTENSIONS--
pagewise
opcache
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$preloaded = __DIR__ . '/preload.inc.php';
file_put_contents($preloaded, '<?php
class Preloaded { static $list = [1, 2, 3]; const TEXT = ["x" => "text"]; public $next; function repeat($n) { return str_repeat("p", $n); } }
class Keeper { static $list; static function keep($list) { static $kept; $kept = $list; } }
class Heir extends Keeper { }
if (PHP_VERSION_ID >= 80400) class_alias("ArrayObject", "Named"); // 8.2 refuses
function keep($list) { static $kept; $kept = $list; }
function preloaded($x) { static $calls = 0; return ++$calls + $x; }
for ($i = 0; $i < 40; $i++) fclose(fopen("php://memory", "r"));
$GLOBALS["kept"] = range(1, 1000);
');
chmod($preloaded, 0644);
$code = 'echo strlen((new Preloaded)->repeat(10000)), " ", preloaded(3), preloaded(3), " ", count(Preloaded::$list), " ", Preloaded::TEXT["x"], " ",
    isset($kept) ? "kept" : "forgotten", " ", count(array_intersect(["Preloaded", "Keeper", "Heir"], opcache_get_status()["preload_statistics"]["classes"])), "\n";
    for ($i = 0; $i < 1000000; $i++) { $node = new Preloaded; $node->next = $list ?? null; $list = $node; }
    foreach (array_slice($argv, 1) as $way) {
        for ($nested = [], $i = 0; $i < 500000; $i++) $nested = [$nested];
        if ($way === "property") Keeper::$list = $nested;
        else ["method" => "Keeper::keep", "heir" => "Heir::keep", "function" => "keep"][$way]($nested);
        unset($nested);
    }';
function posix_root() { return fileowner('/proc/self') === 0; }
foreach ([[], ['property'], ['method'], ['heir'], ['function'], ['property', 'method', 'function']] as $deep) {
    $process = proc_open([PHP_BINARY, '-n', '-d', 'memory_limit=-1', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'zend_extension=opcache', '-d', 'opcache.enable_cli=1',
        '-d', "opcache.preload=$preloaded", ...(posix_root() ? ['-d', 'opcache.preload_user=root'] : []), '-r', $code, ...$deep], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    echo stream_get_contents($pipes[1]), stream_get_contents($pipes[2]), implode(', ', $deep), ' ', proc_close($process), "\n";
}
?>
--CLEAN--
<?php @unlink(__DIR__ . '/preload.inc.php'); ?>
--EXPECT--
10000 45 3 text forgotten 3
 0
10000 45 3 text forgotten 3
property 0
10000 45 3 text forgotten 3
method 0
10000 45 3 text forgotten 3
heir 0
10000 45 3 text forgotten 3
function 0
10000 45 3 text forgotten 3
property, method, function 0
