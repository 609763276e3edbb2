--TEST--
A worker that runs for long in one request: memory goes up and down with its jobs, and does not creep
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (pagewise_status()['mode'] === 'region') die('skip a region frees nothing'); ?>
--INI--
memory_limit=64M
--FILE--
<?php
mt_srand(1);
class Job {
    public array $log = [];
    function __construct(public int $number, public array $input) {}
    function run(): string {
        $rows = [];
        foreach ($this->input as $i => $word) {
            $rows["$word $i"] = ['text' => str_repeat($word, 1 + $i % 40), 'numbers' => range(0, $i % 30)];
            if ($i % 3 === 0) unset($rows["$word " . ($i >> 1)]);
            $this->log[] = $this->log[$i >> 1] ?? new ArrayObject([$word]);
        }
        return md5(serialize($rows));
    }
}
function jobs(int $from, int $to): string {
    $sum = '';
    for ($n = $from; $n < $to; $n++) {
        $words = array_map(fn () => substr('abcdefghijklmnop', mt_rand(0, 8), mt_rand(1, 8)), array_fill(0, mt_rand(50, 1500), 0));
        $sum = md5($sum . (new Job($n, $words))->run());
    }
    return $sum;
}
jobs(0, 150);
$used = memory_get_usage();
$taken = memory_get_usage(true);
jobs(150, 600);
var_dump(memory_get_usage() - $used < 100000);
var_dump(memory_get_usage(true) - $taken <= 2 << 20);
// A job that needs much more, and is over: what it had is of use to the next ones.
$large = array_map(fn ($n) => str_repeat('x', $n), range(1, 8000));
$taken = memory_get_usage(true);
unset($large);
jobs(600, 700);
var_dump(memory_get_usage(true) <= $taken, memory_get_usage() - $used < 100000);
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
