<?php
$list = [];
for ($i = 0; $i < 20000; $i++) {
    $list[] = str_repeat('x', $i % 500);
}
if (extension_loaded('ffi')) {
    $ffi = FFI::cdef();
    FFI::free(FFI::addr($ffi->new('int[1000]', false))); // PHP asks whose it is
}
preg_match('/VmSize:\s*(\d+)/', file_get_contents('/proc/self/status'), $size);
$status = pagewise_status();
echo "\nlife ", $status['mode'], ' ', $status['requests'] ?? 1, ' ', strlen(implode($list)), ' ', $size[1], "\n";
