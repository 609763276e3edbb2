<?php
// Much memory and a short answer, which PHP sends when the request has ended.
$large = str_repeat('x', 20 << 20);
usleep(100000); // a client that leaves has gone by then
echo "done\n";
