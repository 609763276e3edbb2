--TEST--
An uploaded file, a large form and cookies
--EXTENSIONS--
pagewise
--INI--
file_uploads=1
upload_max_filesize=8M
--COOKIE--
one=1; two=2
--POST_RAW--
Content-Type: multipart/form-data; boundary=-------------------------20896060251896012921717172737
---------------------------20896060251896012921717172737
Content-Disposition: form-data; name="text"

some text
---------------------------20896060251896012921717172737
Content-Disposition: form-data; name="file"; filename="name.txt"
Content-Type: text/plain-file

first line
second line
---------------------------20896060251896012921717172737--
--FILE--
<?php
var_dump($_POST['text'], $_COOKIE['two'], $_FILES['file']['name'], $_FILES['file']['error'], $_FILES['file']['size']);
var_dump(is_uploaded_file($_FILES['file']['tmp_name']), file_get_contents($_FILES['file']['tmp_name']));
?>
--EXPECT--
string(9) "some text"
string(1) "2"
string(8) "name.txt"
int(0)
int(22)
bool(true)
string(22) "first line
second line"
