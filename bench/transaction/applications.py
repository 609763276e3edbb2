#!/usr/bin/env python3
"""PHP applications for benchmarks, and requests to them: installed ones (php-twig, php-parser), and wikis whose
packages are unpacked into a folder (installed, they would bring a web server)."""

import os
import random
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


WORDS = "memory page heap object transaction allocator region segment cache thread request server process kernel".split()


def article():
    """A long page of text, tables, lists and links, in MediaWiki's notation; the same each time."""
    source = random.Random(3)

    def sentence(length):
        return " ".join(source.choice(WORDS) for _ in range(length)).capitalize() + "."

    lines = []
    for section in range(12):
        lines.append(f"== Section {section} ==")
        for _ in range(4):
            lines += [" ".join(sentence(10) + (f" [[{source.choice(WORDS)} {section}|link]]" if i % 3 == 0 else "")
                               for i in range(6)), ""]
        lines.append('{| class="wikitable"')
        for _ in range(8):
            cells = [f"'''{source.choice(WORDS)}''' {source.randint(1, 999)}" for _ in range(5)]
            lines += ["|-", "| " + " || ".join(cells)]
        lines.append("|}")
        lines += [f"* ''{sentence(8)}'' [https://example.org/{i} source]" for i in range(6)]
    return "\n".join(lines) + "\n"


def quietly(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")


def unpack(folder, *packages):
    target = os.path.join(folder, "packages")
    if not os.path.isdir(target):
        os.makedirs(target + ".new", exist_ok=True)
        quietly(["apt-get", "download", *packages], cwd=target + ".new")
        for name in os.listdir(target + ".new"):
            quietly(["dpkg", "-x", name, "."], cwd=target + ".new")
        os.rename(target + ".new", target)
    return target


def install_mediawiki(folder, packages):
    wiki = os.path.join(folder, "mediawiki")
    if not os.path.isdir(wiki):
        new = wiki + ".new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(f"{packages}/usr/share/mediawiki", new, symlinks=True)
        for link in ("LocalSettings.php", "config", "extensions", "images"):  # into /var/lib
            os.remove(f"{new}/{link}")
        os.makedirs(f"{new}/images")
        os.makedirs(f"{new}/extensions")
        os.rename(new, wiki)
    if not os.path.exists(f"{wiki}/LocalSettings.php"):
        os.makedirs(f"{wiki}/data", exist_ok=True)
        quietly(["php", "maintenance/install.php", "--dbtype", "sqlite", "--dbname", "wiki", "--dbpath", f"{wiki}/data",
                 "--pass", "a password for nobody", "--scriptpath", "/w", "--server", "http://localhost", "Wiki",
                 "Admin"], cwd=wiki)
        quietly(["php", "maintenance/edit.php", "-s", "bench", "Article"], cwd=wiki, input=article())
    return wiki


def replace_in(path, old, new):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


def install_dokuwiki(folder, packages):
    wiki = os.path.join(folder, "dokuwiki")
    if os.path.isdir(wiki):
        return wiki
    new = wiki + ".new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(f"{packages}/usr/share/dokuwiki", new, symlinks=True)
    for link in ("lib/tpl", "lib/plugins", ".htaccess"):
        os.remove(f"{new}/{link}")
    for part in ("tpl", "plugins"):
        shutil.copytree(f"{packages}/var/lib/dokuwiki/lib/{part}", f"{new}/lib/{part}")
    shutil.copytree(f"{packages}/var/lib/dokuwiki/data", f"{new}/data")
    shutil.copytree(f"{packages}/etc/dokuwiki", f"{new}/conf", symlinks=True)
    replace_in(f"{new}/inc/preload.php", "'/etc/dokuwiki/'", "dirname(__DIR__) . '/conf/'")
    replace_in(f"{new}/conf/dokuwiki.php", "/var/lib/dokuwiki/data", f"{wiki}/data")
    with open(f"{new}/conf/local.php", "w", encoding="utf-8") as file:
        file.write("<?php\n$conf['title'] = 'Wiki';\n$conf['useacl'] = 0;\n$conf['license'] = '';\n")
    text = re.sub(r"^== (.*) ==$", r"===== \1 =====", article(), flags=re.M)
    text = re.sub(r"^(\{\||\|\}|\|-).*\n", "", text, flags=re.M)
    text = re.sub(r"^\| (.*)$", lambda row: "| " + row[1].replace("||", "|") + " |", text, flags=re.M)
    with open(f"{new}/data/pages/article.txt", "w", encoding="utf-8") as file:
        file.write(text.replace("* ''", "  * //").replace("'' [", "// [").replace("'''", "**"))
    os.rename(new, wiki)
    return wiki


def applications(folder):
    """Name, what it is, folder, script, address."""
    packages = unpack(folder, "mediawiki", "mediawiki-classes", "dokuwiki")
    wiki, other = install_mediawiki(folder, packages), install_dokuwiki(folder, packages)
    own = os.path.join(HERE, "php")
    return [
        ("mediawiki-read", "MediaWiki 1.39: an article", wiki, "index.php", "/w/index.php?title=Article"),
        ("mediawiki-parse", "MediaWiki 1.39: the same article parsed anew, through its API", wiki, "api.php",
         "/w/api.php?action=parse&page=Article&format=json&disablelimitreport=1&preview=1"),
        ("dokuwiki", "DokuWiki: an article, rendered anew", other, "doku.php", "/doku.php?id=article&purge=true"),
        ("twig", "Twig: a page with 2000 products", own, "twig.php", "/"),
        ("php-parser", "PHP-Parser: two files parsed and printed", own, "parser.php", "/"),
        ("shop", "a page without a framework, in the manner of SPECweb's e-commerce part", own, "shop.php", "/"),
    ]
