--TEST--
A block that becomes smaller needs no memory: what was read into a large buffer near the limit
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--INI--
memory_limit=48M
--FILE--
<?php
$path = tempnam(sys_get_temp_dir(), 'pagewise');
foreach ([15 << 20, 7 << 20, 3000000, 100] as $size) {
    $file = fopen($path, 'w');
    for ($left = $size; $left > 0; $left -= 100000) fwrite($file, str_repeat('x', min($left, 100000)));
    fclose($file);
    $file = fopen($path, 'r');
    $text = fread($file, 38 << 20);
    var_dump(strlen($text) === $size, memory_get_usage() < $size * 1.3 + 2000000);
    $more = str_repeat('y', 28 << 20);
    unset($text, $more);
}
unlink($path);
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
