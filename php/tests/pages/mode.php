<?php
echo pagewise_status()['mode'];
