<?php
// The page ends while PHP closes what is open.
class Wrapper {
    public $context;
    function stream_open($path) { return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() { exit(3); }
}
stream_wrapper_register('probe', 'Wrapper');
$stream = fopen('probe://x', 'w');
for ($i = 0; $i < 10; $i++) {
    $objects[] = new stdClass;
}
echo "the answer\n";
