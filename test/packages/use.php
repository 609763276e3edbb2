<?php
// A request of the installed extension: what it allocates is on the transaction heap, and is counted there.
$before = pagewise_status();
print_r($before);
if ($before['mode'] !== 'transaction') {
    fwrite(STDERR, "use.php: the mode is {$before['mode']}: {$before['reason']}\n");
    exit(1);
}
$rows = array_map(fn($number) => str_repeat('x', 1000 + $number % 7), range(1, 20000));
$more = pagewise_status()['live_bytes'] - $before['live_bytes'];
if ($more < 20e6 || $more > 30e6) {
    fwrite(STDERR, "use.php: twenty million bytes are counted as $more\n");
    exit(1);
}
echo "a request holds $more bytes\n";
