<?php
session_save_path(sys_get_temp_dir());
session_id('pagewise' . ($_GET['id'] ?? 'test'));
session_start();
$_SESSION['calls'] = ($_SESSION['calls'] ?? 0) + 1;
$_SESSION['object'] ??= new ArrayObject(['a' => [1, 2, 3]]);
$_SESSION['object'][] = str_repeat('x', 10);
if ($_SESSION['calls'] >= 50) { session_destroy(); }
echo $_SESSION['calls'], ' ', count($_SESSION['object']), "\n";
