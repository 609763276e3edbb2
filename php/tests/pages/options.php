<?php
$status = pagewise_status();
echo $status['mode'], ' ', json_encode($status['checked']);
foreach (['mode', 'checked', 'segment_size', 'huge_pages'] as $name) {
    echo " $name=", ini_get("pagewise.$name");
}
