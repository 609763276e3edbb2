<?php
// A connection that outlives the request, beside one that does not.
$lasting = new PDO('sqlite::memory:', null, null, [PDO::ATTR_PERSISTENT => true]);
$lasting->exec('create table if not exists calls (n integer)');
$lasting->exec('insert into calls values (' . strlen(str_repeat('x', 50)) . ')');
$own = new PDO('sqlite::memory:');
$own->exec('create table calls (n integer)');
echo $lasting->query('select count(*) from calls')->fetchColumn(), ' ', $own->query('select count(*) from calls')->fetchColumn(), "\n";
