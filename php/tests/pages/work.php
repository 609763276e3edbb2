<?php
// Ordinary work: strings, arrays, objects, closures, generators, regular expressions, dates, JSON, XML, output buffers.
class Item implements JsonSerializable {
    private static int $made = 0;
    public ?Item $next = null;
    function __construct(public readonly int $number, public array $tags = []) { self::$made++; }
    function jsonSerialize(): array { return ['n' => $this->number, 'tags' => $this->tags]; }
    static function made(): int { return self::$made; }
}
function numbers(int $n) { for ($i = 0; $i < $n; $i++) yield $i => $i * $i; }
ob_start();
$n = (int) ($_GET['n'] ?? 300);
$items = [];
foreach (numbers($n) as $i => $square) {
    $items[] = $item = new Item($i, ["tag$i", "square $square"]);
    $item->next = $items[$i >> 1];
}
usort($items, fn ($a, $b) => crc32((string) $a->number) <=> crc32((string) $b->number));
$json = json_encode($items);
$back = json_decode($json, true);
echo count($back), ' ', md5($json), ' ', Item::made(), "\n";
echo preg_replace_callback('/\d+/', fn ($m) => $m[0] * 2, 'a1 b22 c333'), "\n";
$document = new DOMDocument;
$document->loadXML('<root>' . str_repeat('<a b="c">text</a>', $n) . '</root>');
echo $document->getElementsByTagName('a')->length, ' ', strlen($document->saveXML()), "\n";
echo (new DateTimeImmutable('2020-02-28'))->modify('+2 days')->format('c'), "\n";
foreach (new LimitIterator(new ArrayIterator(array_chunk($back, 10)), 1, 2) as $chunk) echo count($chunk), ' ';
echo serialize(unserialize(serialize([1, 'two', [3.5, null, true]]))), "\n";
$text = ob_get_clean();
header('X-Length: ' . strlen($text));
echo $text, strtoupper(substr($text, 0, 20)), "\n";
