--TEST--
A persistent connection outlives requests of PHP's own web server, and what it was opened with
--EXTENSIONS--
pagewise
--SKIPIF--
<?php if (!getenv('TEST_PAGEWISE_LIBRARY')) die('skip run by scripts/test-php'); ?>
--FILE--
<?php
file_put_contents(__DIR__ . '/persistent.page.php', '<?php
$held = range(1, $_GET["n"]);
$lasting = pfsockopen("tcp://127.0.0.1", (int) $_GET["port"]);
fwrite($lasting, "request " . $_GET["n"] . "\n");
echo get_resource_type($lasting), " ", count($held), " ", pagewise_status()["mode"];
if ($_GET["n"] == 3000) nowhere();
');
$listening = stream_socket_server('tcp://127.0.0.1:0');
$port = (int) explode(':', stream_socket_get_name($listening, false))[1];
$probe = stream_socket_server('tcp://127.0.0.1:0');
$own = stream_socket_get_name($probe, false);
fclose($probe);
$server = proc_open([PHP_BINARY, '-n', '-d', 'display_errors=0', '-d', 'log_errors=0', '-d', 'extension=' . getenv('TEST_PAGEWISE_LIBRARY'),
    '-S', $own, '-t', __DIR__], [1 => ['file', '/dev/null', 'w'], 2 => ['file', '/dev/null', 'w']], $pipes);
for ($tries = 0; $tries < 100 && !($answering = @stream_socket_client("tcp://$own")); $tries++) usleep(100000);
fclose($answering);
$context = stream_context_create(['http' => ['ignore_errors' => true]]);
$modes = [];
foreach ([10, 200, 3000, 40000, 5] as $n) { // the third ends in a fatal error
    $answer = file_get_contents("http://$own/persistent.page.php?n=$n&port=$port", false, $context);
    $modes[] = explode(" ", $answer)[3] ?? $answer;
    $accepted = @stream_socket_accept($listening, $n === 10 ? 5 : 0) ?: null;
    if ($accepted) echo "a connection\n";
    $first ??= $accepted;
    echo trim(fgets($first)), "\n";
}
var_dump(count(array_unique($modes)));
proc_terminate($server);
proc_close($server);
?>
--CLEAN--
<?php @unlink(__DIR__ . '/persistent.page.php'); ?>
--EXPECT--
a connection
request 10
request 200
request 3000
request 40000
request 5
int(1)
