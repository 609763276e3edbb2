--TEST--
With opcache and its JIT
--EXTENSIONS--
pagewise
opcache
--INI--
opcache.enable=1
opcache.enable_cli=1
opcache.jit=tracing
opcache.jit_buffer_size=32M
opcache.optimization_level=-1
--FILE--
<?php
function work($n) {
    $rows = [];
    for ($i = 0; $i < $n; $i++) {
        $rows["key$i"] = ['number' => $i, 'text' => "text $i", 'list' => [$i, $i + 1]];
        if ($i % 7 === 0) unset($rows['key' . ($i >> 1)]);
    }
    return array_sum(array_map(fn ($row) => $row['number'] + count($row['list']), $rows));
}
for ($round = 0; $round < 20; $round++) $sum = work(5000);
echo $sum, "\n";
echo opcache_get_status(false)['opcache_enabled'] ? "opcache\n" : "no opcache\n";
file_put_contents(__DIR__ . '/opcache.inc', '<?php function included() { static $calls = 0; return ++$calls . str_repeat("x", 3); } class Included { static $list = [1, 2, 3]; const TEXT = "text"; } return ["a" => [1, 2]];');
var_dump((include __DIR__ . '/opcache.inc')['a'] === [1, 2], included(), included(), Included::$list[2]);
?>
--CLEAN--
<?php @unlink(__DIR__ . '/opcache.inc'); ?>
--EXPECT--
11612856
opcache
bool(true)
string(4) "1xxx"
string(4) "2xxx"
int(3)
