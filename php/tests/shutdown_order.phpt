--TEST--
At the end of a request streams, objects and resources close as ever, and PHP functions can be called for it
--EXTENSIONS--
pagewise
--FILE--
<?php
const PREFIX = 'closed by a constant: ';
function close_name($name) { return strtoupper(PREFIX . $name) . "\n"; }
class Wrapper {
    public $context;
    private $name;
    function stream_open($path) { $this->name = substr($path, 8); return true; }
    function stream_write($data) { return strlen($data); }
    function stream_read($count) { return ''; }
    function stream_eof() { return true; }
    function stream_flush() { echo "flush {$this->name}\n"; return true; }
    function stream_close() { echo close_name($this->name), implode(',', array_map(fn ($x) => $x + 1, [1, 2])), "\n"; }
}
stream_wrapper_register('probe', 'Wrapper');
function hold() { static $held = []; $held[] = fopen('probe://static', 'w'); fwrite($held[0], 'x'); }
hold();
$global = fopen('probe://global', 'w');
$GLOBALS['cycle'] = new stdClass;
$cycle->self = $cycle;
$cycle->stream = fopen('probe://cycle', 'w');
$file = fopen(__DIR__ . '/shutdown.tmp', 'w');
fwrite($file, 'written at the end');
register_shutdown_function(function () { echo "get_resources: ", count(get_resources()), "\n"; });
echo "end\n";
?>
--CLEAN--
<?php @unlink(__DIR__ . '/shutdown.tmp'); ?>
--EXPECTF--
end
get_resources: %d
CLOSED BY A CONSTANT: CYCLE
2,3
CLOSED BY A CONSTANT: GLOBAL
2,3
flush static
CLOSED BY A CONSTANT: STATIC
2,3
