--TEST--
FFI::free() through a pointer, where a script has loaded FFI by dl()
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
$code = 'dl("ffi.so"); $ffi = FFI::cdef(); FFI::free(FFI::addr($ffi->new("int[9]", false))); FFI::free(FFI::addr($ffi->new("int[9]", false, true))); echo "freed\n";';
$process = proc_open([PHP_BINARY, '-n', '-d', 'extension_dir=' . ini_get('extension_dir'), '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'),
    '-d', 'ffi.enable=1', '-d', 'enable_dl=1', '-r', $code], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
echo stream_get_contents($pipes[1]), stream_get_contents($pipes[2]), proc_close($process), "\n";
?>
--EXPECT--
freed
0
