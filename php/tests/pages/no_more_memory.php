<?php
// From here on this process may map no more than it has.
$libc = FFI::cdef('
    struct limit { unsigned long soft, hard; };
    int getrlimit(int what, struct limit *limit);
    int setrlimit(int what, const struct limit *limit);
    void *malloc(size_t size);
    void free(void *block);
');
// A megabyte stays free in the C library's heap, or chance says which of libxml's blocks is refused. One block behind it
// keeps it from being given back.
$room = [];
for ($i = 0; $i < 16; $i++) {
    $room[] = $libc->malloc(65536);
}
$libc->malloc(64);
array_map(fn ($block) => $libc->free($block), $room);
$limit = $libc->new('struct limit');
$address_space = 9; // RLIMIT_AS
$libc->getrlimit($address_space, FFI::addr($limit));
$limit->soft = (int) explode(' ', file_get_contents('/proc/self/statm'))[0] * 4096;
echo $libc->setrlimit($address_space, FFI::addr($limit));
