--TEST--
What cannot be switched runs on PHP's own allocator, and one line of the log says why
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$library = getenv('TEST_PAGEWISE_LIBRARY');
$others = getenv('TEST_PAGEWISE_OTHERS_LIBRARY');
function run($title, $environment, ...$options) {
    $code = 'echo pagewise_status()["mode"], " ", strlen(str_repeat("x", 1000000)), "\n";';
    $process = proc_open([PHP_BINARY, '-n', '-d', 'log_errors=1', ...$options, '-r', $code], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']],
        $pipes, null, $environment);
    echo "$title: ", stream_get_contents($pipes[1]), stream_get_contents($pipes[2]);
    proc_close($process);
}
run('off', [], '-d', "extension=$library", '-d', 'pagewise.mode=off');
run('mode', [], '-d', "extension=$library", '-d', 'pagewise.mode=fast');
run('environment', ['PAGEWISE_PHP_MODE' => 'region'], '-d', "extension=$library");
run('mode of the environment', ['PAGEWISE_PHP_MODE' => 'fast'], '-d', "extension=$library");
run('segment', [], '-d', "extension=$library", '-d', 'pagewise.segment_size=20000');
run('segment of a region', [], '-d', "extension=$library", '-d', 'pagewise.mode=region', '-d', 'pagewise.segment_size=32K');
run('checked PHP heap', [], '-d', "extension=$library", '-d', 'pagewise.mode=pass-through', '-d', 'pagewise.checked=1');
run('malloc', [], '-d', "extension=$library", '-d', 'pagewise.mode=malloc');
run('no library', [], '-d', "extension=$library", '-d', 'pagewise.mode=malloc', '-d', 'pagewise.malloc=/nowhere.so');
run('not Zend MM', ['USE_ZEND_ALLOC' => '0'], '-d', "extension=$library");
run('version', [], '-d', "extension=$others");
run('trusted', [], '-d', "extension=$others", '-d', 'pagewise.trust_version=' . PHP_VERSION);
?>
--EXPECTF--
off: off 1000000
mode: off 1000000
pagewise: pagewise.mode is 'fast', not transaction, region, pass-through, malloc or off. PHP keeps its own allocator
environment: region 1000000
mode of the environment: off 1000000
pagewise: PAGEWISE_PHP_MODE, in the environment, is 'fast', not transaction, region, pass-through, malloc or off. PHP keeps its own allocator
segment: off 1000000
pagewise: pagewise.segment_size=20000 is not possible: it must be a power of two from 16K to 256K. PHP keeps its own allocator
segment of a region: off 1000000
pagewise: pagewise.segment_size and pagewise.checked are not for mode region, but for transaction. PHP keeps its own allocator
checked PHP heap: off 1000000
pagewise: pagewise.segment_size and pagewise.checked are not for mode pass-through, but for transaction. PHP keeps its own allocator
malloc: off 1000000
pagewise: pagewise.mode=malloc needs a library in pagewise.malloc: it is empty. PHP keeps its own allocator
no library: off 1000000
pagewise: pagewise.mode=malloc needs a library in pagewise.malloc: /nowhere.so: cannot open shared object file: No such file or directory. PHP keeps its own allocator
not Zend MM: off 1000000
pagewise: PHP's allocator has been replaced already (USE_ZEND_ALLOC=0, or another extension). Nothing is changed
version: off 1000000
pagewise: PHP %s is not one that this extension knows (8.2.0 to 8.2.0, 9.0.0 to 9.0.1). PHP keeps its own allocator; pagewise.trust_version=%s tries it all the same
trusted: transaction 1000000
