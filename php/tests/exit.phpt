--TEST--
exit in the middle of functions, output buffers, generators and destructors
--EXTENSIONS--
pagewise
--FILE--
<?php
class Last {
    public $file;
    function __construct() { $this->file = new SplFileObject(__DIR__ . '/exit.tmp', 'w+'); $this->file->fwrite('kept'); }
    function __destruct() { $this->file->rewind(); echo "destructor: ", $this->file->fgets(), "\n"; unlink(__DIR__ . '/exit.tmp'); }
}
$last = new Last;
$again = $last;
ob_start(fn ($text) => strtoupper($text));
register_shutdown_function(function () { echo "shutdown function\n"; exit(3); });
set_error_handler(function () use ($last) { return true; });
function generate() { $held = range(1, 10000); yield 1; exit("exit in a generator\n"); }
foreach (array_map(fn ($x) => $x * 2, range(1, 1000)) as $value) {
    foreach (generate() as $one) {}
}
?>
--CLEAN--
<?php @unlink(__DIR__ . '/exit.tmp'); ?>
--EXPECT--
EXIT IN A GENERATOR
SHUTDOWN FUNCTION
DESTRUCTOR: KEPT
