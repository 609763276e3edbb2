<?php
// operations.php NAME FILE: something that needs a few ten MB, and says what came out. FILE holds what is worth keeping.
// Without a name: the names, and which of them use FILE.
[$name, $file] = [$argv[1] ?? null, $argv[2] ?? null];

const MB = 1 << 20;

class Upper
{
    private string $held = '';
    public $context;
    static string $path;

    function stream_open($path, $mode) { return true; }
    function stream_write($data) { $this->held .= strtoupper($data); return strlen($data); }
    function stream_close() { file_put_contents(self::$path, $this->held); }
}

class AtEnd
{
    function __construct(private string $file, private string $text) {}
    function __destruct() { file_put_contents($this->file, str_replace('a', 'bb', $this->text)); }
}

function text(int $size): string { return str_repeat("a line of some text, number 0123456789\n", intdiv($size, 39)); }
function rows(int $count): array
{
    $rows = [];
    for ($i = 0; $i < $count; $i++) $rows["key$i"] = [$i, "value $i", ['half' => $i / 2, 'odd' => $i % 2 === 1]];
    return $rows;
}
function random_bytes_fixed(): string { $text = ''; for ($i = 0; $i < 4096; $i++) $text .= md5("$i", true); return $text; }
function counted(int $to): Generator { for ($i = 0; $i < $to; $i++) yield "number $i" => str_repeat('x', $i % 50); }

$operations = [
    // strings
    'repeat' => fn () => str_repeat('x', 64 * MB),
    'append' => function () { $all = ''; for ($i = 0; $i < 1200000; $i++) $all .= "part number $i of a text that grows\n"; return $all; },
    'concat' => function () { $one = text(8 * MB); $all = $one; for ($i = 0; $i < 4; $i++) $all = $all . $one; return $all; },
    'interpolate' => function () { $s = text(12 * MB); return "$s and $s, $s"; },
    'implode' => fn () => implode(', ', array_fill(0, 4 * MB, 'ten bytes.')),
    'explode' => fn () => explode(',', str_repeat('a,bcd,', 700000)),
    'replace' => fn () => str_replace('a', 'bbbb', text(24 * MB)),
    'split' => fn () => str_split(text(4 * MB), 3),
    'base64' => fn () => base64_decode(base64_encode(text(24 * MB))),
    'sprintf' => function () { $s = text(16 * MB); return sprintf('%s|%s|%5d', $s, $s, 7); },
    // arrays
    'fill' => fn () => array_fill(0, 4 * MB, 'x'),
    'range' => fn () => range(1, 3 * MB),
    'sort_by' => function () { $a = range(200000, 1); usort($a, fn ($x, $y) => $x <=> $y); return array_flip($a); },
    'merge' => fn () => array_merge(rows(40000), array_values(rows(40000)), ['last' => 1]),
    'map' => fn () => array_filter(array_map(fn ($n) => str_repeat("$n", 5), range(1, 600000)), fn ($s) => $s[0] !== '3'),
    // formats
    'json_encode' => fn () => json_encode(rows(80000)),
    'json_decode' => fn () => json_decode('[' . str_repeat('{"a":[1,2,3],"b":"text"},', 80000) . '0]', true),
    'serialize' => fn () => unserialize(serialize([rows(40000), text(12 * MB)])),
    'export' => fn () => var_export(rows(60000), true),
    'compress' => fn () => gzcompress(str_repeat(random_bytes_fixed(), 384), 0),
    'uncompress' => fn () => gzuncompress(gzcompress(str_repeat('x', 24 * MB), 1)),
    'preg_replace' => fn () => preg_replace('/(\d)/', '<$1>', text(8 * MB)),
    'preg_match_all' => function () { preg_match_all('/\w+/', text(MB), $matches, PREG_OFFSET_CAPTURE); return $matches; },
    'preg_split' => fn () => preg_split('/[ ,]+/', text(5 * MB)),
    'csv' => fn () => array_map(fn ($line) => str_getcsv($line, escape: '\\'), array_fill(0, 80000, 'one,"two, three",4,five')),
    'simplexml' => function () {
        $all = [];
        foreach (simplexml_load_string('<a>' . str_repeat('<b c="d">text</b>', 50000) . '</a>')->b as $b) $all[] = [(string) $b['c'], (string) $b];
        return $all;
    },
    // objects, iterators, SPL
    'objects' => function () { $all = []; for ($i = 0; $i < 300000; $i++) $all[] = new ArrayObject([$i]); return count($all); },
    'closures' => function () { $all = []; for ($i = 0; $i < 100000; $i++) $all[] = fn () => $i; return array_sum(array_map(fn ($f) => $f(), $all)); },
    'generator' => fn () => iterator_to_array(counted(400000)),
    'fixed_array' => function () { $a = new SplFixedArray(4 * MB); $a[5] = 'x'; return $a->getSize() . serialize($a[5]); },
    'queue' => function () { $q = new SplPriorityQueue(); for ($i = 0; $i < 500000; $i++) $q->insert("item $i", $i % 977); return [count($q), $q->extract()]; },
    'tree' => function () { $t = []; for ($i = 0; $i < 200000; $i++) $t = ['left' => $t ?: null, 'i' => $i]; for ($n = 0; $t; $n++) $t = $t['left']; return $n; },
    // output
    'buffer' => function () { ob_start(fn ($text) => md5($text) . strlen($text)); for ($i = 0; $i < 700000; $i++) echo "line $i of the output of a page\n"; ob_end_flush(); return 'sent'; },
    'nested_buffers' => function () { ob_start(); echo text(16 * MB); ob_start(); echo text(16 * MB); $inner = ob_get_clean(); return ob_get_clean() . $inner; },
    'memory_stream' => function () { $f = fopen('php://memory', 'w+'); for ($i = 0; $i < 48; $i++) fwrite($f, text(MB)); rewind($f); return stream_get_contents($f); },
    // files
    'rewrite' => fn () => file_put_contents($file, str_replace(' ', '          ', file_get_contents($file))),
    'rewrite_json' => fn () => file_put_contents($file, json_encode(array_map(fn ($l) => explode(' ', $l), file($file)))),
    'rewrite_serialized' => fn () => file_put_contents($file, serialize(array_map(fn ($l) => [$l, strtoupper($l)], file($file)))),
    'rewrite_gzip' => fn () => file_put_contents($file, gzencode(str_repeat(file_get_contents($file), 4), 1)),
    'rewrite_buffered' => function () use ($file) { ob_start(); foreach (file($file) as $line) echo strrev($line), $line, ucwords($line), $line; return file_put_contents($file, ob_get_clean()); },
    'rewrite_renamed' => function () use ($file) { $new = preg_replace('/some/', 'any kind of', file_get_contents($file) . file_get_contents($file)); return file_put_contents("$file.new", $new) && rename("$file.new", $file); },
    'append_file' => fn () => file_put_contents($file, strtoupper(str_repeat(file_get_contents($file), 3)), FILE_APPEND),
    'write_parts' => function () use ($file) { $parts = str_split(str_repeat(file_get_contents($file), 2), 64); return file_put_contents($file, $parts); },
    'wrapper' => function () use ($file) { stream_wrapper_register('upper', 'Upper'); Upper::$path = $file; $f = fopen('upper://x', 'w'); foreach (file($file) as $l) fwrite($f, "$l$l$l$l"); return fclose($f); },
    'destructor' => function () use ($file) { $GLOBALS['kept'] = new AtEnd($file, file_get_contents($file)); return strlen(str_repeat(text(8 * MB), 5)); },
    'at_shutdown' => function () use ($file) { register_shutdown_function(fn () => file_put_contents($file, 'the end: ' . strtoupper(file_get_contents($file)))); return strlen(str_repeat(text(8 * MB), 5)); },
    'error_handler' => function () use ($file) { set_error_handler(fn ($n, $m) => file_put_contents($file, str_repeat("$m\n", MB))); return $undefined . 'x'; },
    'caught' => function () use ($file) { try { $s = str_repeat(file_get_contents($file), 4); } catch (Throwable $t) { $s = 'caught'; } return file_put_contents($file, $s); },
];

if ($name === null) {
    foreach ($operations as $name => $operation) {
        echo $name, array_key_exists('file', (new ReflectionFunction($operation))->getStaticVariables()) ? " file\n" : "\n";
    }
    exit;
}
$result = $operations[$name]();
// Not by serialize(): that would be the largest part of what is needed.
function digest($value, $context): void
{
    if (is_array($value)) {
        hash_update($context, count($value) . ' of');
        $step = intdiv(count($value), 2000) + 1;
        $at = 0;
        foreach ($value as $key => $one) {
            if ($at++ % $step) continue;
            hash_update($context, "$key:");
            digest($one, $context);
        }
    } else {
        hash_update($context, gettype($value) . (is_scalar($value) ? $value : ''));
    }
}
$context = hash_init('crc32b');
if (is_string($result)) hash_update($context, $result); else digest($result, $context);
echo "$name: ", hash_final($context), "\n";
