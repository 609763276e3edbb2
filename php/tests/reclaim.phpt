--TEST--
What jobs of one size have freed serves those of other sizes, before the limit is an error
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--INI--
memory_limit=48M
--FILE--
<?php
function job(int $length): int {
    $all = [];
    for ($i = 0; $i < 10000000 / ($length + 40); $i++) $all[] = str_repeat('x', $length);
    return strlen(implode($all));
}
const LENGTHS = [30, 70, 150, 300, 700, 1500, 3000, 6000, 12000, 50000];
foreach (LENGTHS as $length) job($length);
echo "done\n";
foreach (LENGTHS as $length) {
    job($length);
    $freed ??= gc_mem_caches();
    gc_mem_caches();
    if (memory_get_usage(true) > 4 << 20) echo "after $length: ", memory_get_usage(true), "\n";
}
var_dump($freed > 5 << 20, gc_mem_caches());

// Of each job a little stays, in between what is freed.
$kept = [];
foreach (LENGTHS as $length) {
    $all = [];
    for ($i = 0; $i < 6000000 / ($length + 40); $i++) $all[] = str_repeat(chr(97 + $i % 26), $length);
    foreach ($all as $i => $text) if ($i % 5000 === 0) $kept[] = [$text, str_repeat(chr(97 + $i % 26), $length)];
}
foreach ($kept as [$one, $other]) if ($one !== $other) echo "changed\n";
echo count($kept) > 20 ? "done\n" : "too few\n";
try {
    gc_mem_caches(1);
} catch (ArgumentCountError $e) {
    echo $e->getMessage(), "\n";
}
?>
--EXPECT--
done
bool(true)
int(0)
done
gc_mem_caches() expects exactly 0 arguments, 1 given
