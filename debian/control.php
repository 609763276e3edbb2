
Package: php@PHP@-pagewise
Architecture: amd64
Section: php
Pre-Depends: php-common (>= 2:69~), ${misc:Pre-Depends}
Depends: php@PHP@-common (>= @VERSION@~), ${misc:Depends}, ${php:Depends}, ${shlibs:Depends}
Provides: php-pagewise
Description: PHP @PHP@ on a transaction heap, to compare allocators and find misuse
 Serves the memory of PHP's requests from a transaction heap, and frees it as a
 whole when a request ends. Finds misuse of memory by extensions, and tells what
 a request's memory is made of. Sites do not become faster by it, and most take
 more memory. A version of PHP that it does not know keeps its own allocator.
 .
 It is on once it is installed: "phpdismod pagewise" turns it off.
