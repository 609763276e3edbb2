--TEST--
A stream that another module's end has opened, and that ends by exit as it is closed
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!extension_loaded('session')) die('skip needs session'); ?>
--INI--
session.use_cookies=0
--FILE--
<?php
class Wrapper {
    public $context;
    function stream_open($path) { return true; }
    function stream_write($data) { return strlen($data); }
    function stream_close() { echo "exit\n"; exit(3); }
}
stream_wrapper_register('probe', 'Wrapper');
class Handler implements SessionHandlerInterface {
    static $stream;
    function open($path, $name): bool { return true; }
    function close(): bool { return true; }
    function read($id): string { return ''; }
    function write($id, $data): bool { self::$stream = fopen('probe://late', 'w'); return true; }
    function destroy($id): bool { return true; }
    function gc($age): int { return 0; }
}
session_set_save_handler(new Handler, false);
session_id('fixed');
session_start();
$_SESSION['some'] = 'thing';
for ($i = 0; $i < 10; $i++) {
    $objects[] = new stdClass;
}
echo "the answer\n";
?>
--EXPECT--
the answer
exit
