<?php
// From here on this process may map no more than it has.
$libc = FFI::cdef('struct limit { unsigned long soft, hard; }; int getrlimit(int what, struct limit *limit); int setrlimit(int what, const struct limit *limit);');
$limit = $libc->new('struct limit');
$address_space = 9; // RLIMIT_AS
$libc->getrlimit($address_space, FFI::addr($limit));
$limit->soft = (int) explode(' ', file_get_contents('/proc/self/statm'))[0] * 4096;
echo $libc->setrlimit($address_space, FFI::addr($limit));
