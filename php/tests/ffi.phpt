--TEST--
FFI::free() of memory of a request and of the C library
--EXTENSIONS--
pagewise
ffi
--INI--
ffi.enable=1
--FILE--
<?php
$ffi = FFI::cdef();
for ($i = 0; $i < 1000; $i++) {
    $request = $ffi->new('char[1000]', false);
    FFI::memset($request, 7, 1000);
    FFI::free($request);
    FFI::free(FFI::addr($ffi->new('int[100]', false))); // through a pointer: PHP asks whose it is
    $lasting = $ffi->new('int[50]', false, true);
    FFI::free($lasting);
    $owned = $ffi->new('struct { int x; double y[20]; }');
    $owned->x = $i;
}
$libc = FFI::cdef('void *malloc(size_t size); void free(void *block); char *strdup(const char *text);');
$copy = $libc->strdup('a text of the C library');
echo FFI::string($copy), "\n";
FFI::free($copy);
var_dump($owned->x);
?>
--EXPECT--
a text of the C library
int(999)
