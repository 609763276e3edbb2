<?php
// What a request changes is as before in the next one.
echo ini_get('memory_limit'), ' ', ini_get('precision'), ' ', memory_get_usage() < 3000000 ? 'little' : 'much', ' ',
    memory_get_peak_usage() < 3000000 ? 'little' : 'much', "\n";
ini_set('memory_limit', '512M');
ini_set('precision', '5');
$large = str_repeat('x', 100000000);
echo memory_get_usage() > 100000000 ? 'counted' : 'not counted', ' ', memory_get_peak_usage(true) > 100000000 ? 'counted' : 'not counted', "\n";
