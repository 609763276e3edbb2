--TEST--
A lazy object that is made after the destructors is left alone (PHP 8.4)
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (PHP_VERSION_ID < 80400) die('skip PHP 8.4 brought lazy objects'); ?>
--FILE--
<?php
class Late { public $value = 1; function __destruct() { error_log('destroyed'); } }
ob_start(function ($text) {
    $GLOBALS['late'] = (new ReflectionClass(Late::class))->newLazyProxy(fn() => new Late);
    return $text . $GLOBALS['late']->value . "\n";
});
echo 'written ';
?>
--EXPECT--
written 1
