<?php
// Much memory and a short answer, which PHP sends when the request has ended.
$large = str_repeat('x', 20 << 20);
echo "done\n";
