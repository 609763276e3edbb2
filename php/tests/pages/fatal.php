<?php
// Errors of all kinds, one a request.
$held = array_fill(0, 1000, str_repeat('x', 100));
register_shutdown_function(function () use ($held) { echo "\nshutdown ", count($held), ' ', error_get_last()['type'] ?? 'none', "\n"; });
switch ($_GET['kind'] ?? '') {
case 'undefined': undefined_function($held); break;
case 'exception': function thrower($x) { throw new RuntimeException('with ' . count($x)); } thrower($held); break;
case 'limit': $all = []; for (;;) $all[] = str_repeat('y', 5000) . count($all);
case 'block': str_repeat('z', 500000000); break;
case 'user': trigger_error('user error', E_USER_ERROR); break;
case 'compile': eval('class Twice {} class Twice {}'); break;
case 'type': (function (int $x) {})('no number'); break;
case 'exit': ob_start(); echo 'in a buffer'; (function () { foreach ([1, 2] as $x) exit(2); })(); break;
case 'destructor': class Thrower { function __destruct() { throw new Exception('from a destructor'); } } $thrower = new Thrower; break;
case 'handler': set_error_handler(function () { throw new ErrorException('from a handler'); }); echo $undefined; break;
case 'time': set_time_limit(1); for (;;) { $held[] = 1; array_pop($held); }
}
echo 'end';
