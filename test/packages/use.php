<?php
// A request of the installed extension, of a script or of php-fpm: what it allocates is on the transaction heap, and is
// counted there.
function refuse(string $why): never {
    echo "use.php: $why\n";
    exit(1);
}
$before = pagewise_status();
print_r($before);
if ($before['mode'] !== 'transaction') {
    refuse("the mode is {$before['mode']}: {$before['reason']}");
}
$rows = array_map(fn($number) => str_repeat('x', 1000 + $number % 7), range(1, 20000));
$more = pagewise_status()['live_bytes'] - $before['live_bytes'];
if ($more < 20e6 || $more > 30e6) {
    refuse("twenty million bytes are counted as $more");
}
echo "a request holds $more bytes\n";
echo "served by ", getmypid(), "\n";
