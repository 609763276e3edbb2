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
echo "done\n";
?>
--EXPECT--
done
