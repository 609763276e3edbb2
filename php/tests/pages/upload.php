<?php
echo json_encode([$_POST, array_map(fn ($file) => [$file['name'], $file['error'], $file['size'], md5_file($file['tmp_name'])], $_FILES)]), "\n";
