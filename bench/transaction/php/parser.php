<?php
// A code browser's request: parse a source file of its library, resolve its names, print it again.
require 'PhpParser/autoload.php';
$parser = (new PhpParser\ParserFactory())->create(PhpParser\ParserFactory::PREFER_PHP7);
$traverser = new PhpParser\NodeTraverser();
$traverser->addVisitor(new PhpParser\NodeVisitor\NameResolver());
foreach (['PhpParser/ParserAbstract.php', 'PhpParser/PrettyPrinterAbstract.php'] as $file) {
    $tree = $traverser->traverse($parser->parse(file_get_contents(stream_resolve_include_path($file))));
    echo (new PhpParser\PrettyPrinter\Standard())->prettyPrintFile($tree);
}
