<?php
// Marks the request's begin and end in a trace: two strings whose sizes nothing else has (cut.py
// knows them). Blocks allocated between the marks are the transaction's.
str_repeat('b', (int) getenv('PAGEWISE_MARK') - 32);
register_shutdown_function(fn () => str_repeat('e', (int) getenv('PAGEWISE_MARK') + 8 - 32));
