--TEST--
Lazy objects and weak maps at the end of a request do not overflow the stack (PHP 8.4)
--EXTENSIONS--
pagewise
--INI--
memory_limit=-1
--SKIPIF--
<?php if (PHP_VERSION_ID < 80400) die('skip PHP 8.4 brought lazy objects'); ?>
--FILE--
<?php
class Node { public $next; }
class Holder { public $list; }
class Maker {
    public $list;
    function fill($object) { $object->list = $this->list; }
    function make() {
        $holder = new Holder;
        $holder->list = $this->list;
        return $holder;
    }
}
class Kept { static $all = []; }
function build($list = null) {
    for ($i = 0; $i < 300000; $i++) {
        $node = new Node;
        $node->next = $list;
        $list = $node;
    }
    return $list;
}
$class = new ReflectionClass(Holder::class);
foreach (['newLazyGhost' => 'fill', 'newLazyProxy' => 'make'] as $kind => $method) {
    foreach (['lazy', 'initialized'] as $state) {
        foreach (['before', 'after'] as $when) {
            $maker = new Maker;
            $list = $when === 'before' ? build() : null;
            $object = $class->$kind([$maker, $method]);
            $maker->list = $list ?? build();
            if ($state === 'initialized') $class->initializeLazyObject($object);
            Kept::$all[] = $object;
            echo "$kind $when: ", $class->isUninitializedLazyObject($object) ? 'lazy' : $object->list::class, "\n";
        }
    }
}
// Chains of proxies, and what a weak map has for an object that lives to the end.
foreach (['lazy', 'initialized'] as $state) {
    $proxy = null;
    for ($i = 0; $i < 300000; $i++) {
        $maker = new Maker;
        $maker->list = $proxy;
        $proxy = $class->newLazyProxy([$maker, 'make']);
        if ($state === 'initialized') $class->initializeLazyObject($proxy);
    }
    Kept::$all[] = $proxy;
}
$map = new WeakMap;
$map[Kept::$all[0]] = build();
Kept::$all[] = $map;
$map = $proxy = $maker = $list = $object = null;
echo count(Kept::$all), "\n";
?>
--EXPECT--
newLazyGhost before: lazy
newLazyGhost after: lazy
newLazyGhost before: Node
newLazyGhost after: Node
newLazyProxy before: lazy
newLazyProxy after: lazy
newLazyProxy before: Node
newLazyProxy after: Node
11
