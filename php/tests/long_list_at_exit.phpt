--TEST--
A list of a million nodes at the end of a request does not overflow the stack (PHP's fast shutdown)
--EXTENSIONS--
pagewise
--INI--
memory_limit=-1
--FILE--
<?php
class Node { public $next; public $value; }
class Holder { static $list; public $own; }
function build() {
    $list = null;
    for ($i = 0; $i < 1000000; $i++) {
        $node = new Node;
        $node->next = $list;
        $list = $node;
    }
    return $list;
}
Holder::$list = build();
$nested = [];
for ($i = 0; $i < 1000000; $i++) $nested = [$nested];
set_error_handler(function () use ($nested) {});
function keeper() { static $kept; $kept = Holder::$list; }
keeper();
// Many resources come and go: PHP's list of them is ordered anew. Some stay open.
$open = [];
for ($i = 0; $i < 200; $i++) {
    $stream = fopen('php://memory', 'w+');
    if ($i % 50 === 7) $open[] = $stream;
    unset($stream);
}
echo "done\n";
?>
--EXPECT--
done
