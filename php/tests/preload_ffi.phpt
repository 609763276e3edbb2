--TEST--
FFI::free() through a pointer, in a script that opcache preloads
--EXTENSIONS--
pagewise
opcache
ffi
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$preloaded = __DIR__ . '/preload_ffi.inc.php';
file_put_contents($preloaded, '<?php
class Preloaded { const TEXT = "preloaded"; }
$ffi = FFI::cdef();
FFI::free(FFI::addr($ffi->new("int[100]", false))); // through a pointer: PHP asks whose it is
FFI::free(FFI::addr($ffi->new("int[100]", false, true)));
');
chmod($preloaded, 0644);
$user = fileowner('/proc/self') === 0 ? ['-d', 'opcache.preload_user=root'] : [];
$process = proc_open([PHP_BINARY, '-n', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'), '-d', 'extension=ffi', '-d', 'ffi.enable=1',
    '-d', 'zend_extension=opcache', '-d', 'opcache.enable_cli=1', '-d', "opcache.preload=$preloaded", ...$user, '-r', 'echo Preloaded::TEXT, "\n";'],
    [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
echo stream_get_contents($pipes[1]), stream_get_contents($pipes[2]), proc_close($process), "\n";
?>
--CLEAN--
<?php @unlink(__DIR__ . '/preload_ffi.inc.php'); ?>
--EXPECT--
preloaded
0
