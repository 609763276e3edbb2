<?php
echo memory_get_usage(), ' ', pagewise_status()['requests'] ?? 0;
