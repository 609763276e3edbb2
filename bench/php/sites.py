"""Real applications for bench-php: Debian's packages, copied into a folder where they can be set up, and pages of each."""

import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "transaction"))
import applications  # noqa: E402

quietly, replace_in, article = applications.quietly, applications.replace_in, applications.article

PAGES = {
    "mediawiki": ["/index.php?title=Article", "/index.php?title=Main_Page", "/index.php?title=Special:Version",
                  "/api.php?action=parse&page=Article&format=json&disablelimitreport=1&preview=1",
                  "/index.php?title=Special:AllPages"],
    "wordpress": ["/index.php", "/index.php?p=1", "/index.php?s=memory", "/index.php?feed=rss2", "/wp-login.php"],
    "dokuwiki": ["/doku.php?id=article", "/doku.php?id=article&purge=true", "/doku.php?id=article&do=index", "/doku.php?id=wiki:syntax"],
    "phpmyadmin": ["/index.php?route=/", "/index.php?route=/database/sql&db=wordpress",
                   "/index.php?route=/sql&db=wordpress&table=wp_options&pos=0", "/index.php?route=/server/variables"],
    "symfony": ["/symfony.php"],
    "php-parser": ["/parser.php"],
}
NAMES = list(PAGES)
DATABASES = ("wordpress", "phpmyadmin")


class Database:
    """A MariaDB of the benchmark's own, on a socket in its folder."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "mariadb")
        self.socket = os.path.join(self.folder, "socket")
        user = ["--user=root"] if os.geteuid() == 0 else []
        if not os.path.isdir(self.folder):
            quietly(["mariadb-install-db", "--no-defaults", f"--datadir={self.folder}", "--auth-root-authentication-method=normal", *user])
        self.process = subprocess.Popen(
            ["mariadbd", "--no-defaults", f"--datadir={self.folder}", f"--socket={self.socket}", "--skip-networking",
             f"--pid-file={self.folder}/pid", "--innodb-buffer-pool-size=64M", *user],
            stdout=subprocess.DEVNULL, stderr=open(os.path.join(folder, "mariadb.log"), "wb"))
        for _ in range(300):
            if self.process.poll() is not None:
                break  # another one has the folder, for example
            if subprocess.run(["mariadb-admin", "--no-defaults", f"--socket={self.socket}", "-u", "root", "ping"],
                              capture_output=True).returncode == 0:
                return
            time.sleep(0.2)
        sys.exit(f"bench-php: MariaDB does not start, see {folder}/mariadb.log")

    def run(self, statements):
        quietly(["mariadb", "--no-defaults", f"--socket={self.socket}", "-u", "root"], input=statements)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def copied(folder, name, source):
    """A copy of the application at `source`, and whether it was made now."""
    place = os.path.join(folder, name)
    if os.path.isdir(place):
        return place, False
    shutil.rmtree(place + ".new", ignore_errors=True)
    shutil.copytree(source, place + ".new", symlinks=False, ignore_dangling_symlinks=True)
    return place, True


WORDPRESS_INSTALL = """<?php
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Site', 'admin', 'admin@localhost.invalid', true, '', 'a password for nobody');
update_option('siteurl', 'http://localhost');
update_option('home', 'http://localhost');
$text = file_get_contents('php://stdin');
for ($i = 0; $i < 12; $i++) wp_insert_post(['post_title' => "Post $i", 'post_content' => nl2br($text), 'post_status' => 'publish', 'post_author' => 1]);
"""


# Styles are computed anew once a minute, by whichever request comes first then: no more.
WORDPRESS_PLUGIN = """<?php
remove_action('template_redirect', 'redirect_canonical');
foreach (['global_styles', 'global_styles_svg_filters'] as $name) {
    add_filter("expiration_of_transient_{$name}_twentytwentyone", '__return_zero');
}
"""


def install_wordpress(folder, database):
    place, new = copied(folder, "wordpress", "/usr/share/wordpress")
    if new:
        database.run("create database if not exists wordpress character set utf8mb4;")
        with open(f"{place}.new/wp-config.php", "w", encoding="utf-8") as file:
            file.write(f"""<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:{database.socket}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true); define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_CONTENT_DIR', __DIR__ . '/wp-content'); define('WP_DEFAULT_THEME', 'twentytwentyone');
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
""")
        with open(f"{place}.new/install-for-bench.php", "w", encoding="utf-8") as file:
            file.write(WORDPRESS_INSTALL)
        quietly(["php8.2", f"{place}.new/install-for-bench.php"], input=article(), env=dict(os.environ, HTTP_HOST="localhost"))
        os.remove(f"{place}.new/install-for-bench.php")
        os.makedirs(f"{place}.new/wp-content/mu-plugins", exist_ok=True)
        os.rename(place + ".new", place)
    # Also where an earlier benchmark has set it up: it says what a request does.
    with open(f"{place}/wp-content/mu-plugins/bench.php", "w", encoding="utf-8") as file:
        file.write(WORDPRESS_PLUGIN)
    return place


def install_phpmyadmin(folder, database):
    place, new = copied(folder, "phpmyadmin", "/usr/share/phpmyadmin")
    if new:
        target = place + ".new"
        replace_in(f"{target}/libraries/vendor_config.php", "'/etc/phpmyadmin/config.inc.php'", f"'{place}/config.inc.php'")
        replace_in(f"{target}/libraries/vendor_config.php", "'/var/lib/phpmyadmin/tmp/'", f"'{place}/tmp/'")
        os.mkdir(f"{target}/tmp")
        with open(f"{target}/config.inc.php", "w", encoding="utf-8") as file:
            file.write(f"""<?php
$cfg['blowfish_secret'] = str_repeat('s', 32);
$cfg['Servers'][1] = ['host' => 'localhost', 'socket' => '{database.socket}', 'auth_type' => 'config', 'user' => 'root', 'password' => '',
    'AllowNoPassword' => true];
$cfg['SendErrorReports'] = 'never';
""")
        os.rename(target, place)
    return place


def roots(folder, names, database):
    """The folder that a server serves for each application."""
    found = {}
    packages = applications.unpack(folder, "mediawiki", "mediawiki-classes", "dokuwiki") if {"mediawiki", "dokuwiki"} & set(names) else ""
    for name in names:
        if name == "mediawiki":
            found[name] = applications.install_mediawiki(folder, packages)
            settings = f"{found[name]}/LocalSettings.php"
            # Served from the root here; by commands in bench/transaction.
            if "PAGEWISE_BENCH" not in open(settings, encoding="utf-8").read():
                with open(settings, "a", encoding="utf-8") as file:
                    file.write("\n// PAGEWISE_BENCH\nif (PHP_SAPI === 'fpm-fcgi') { $wgScriptPath = ''; $wgMainCacheType = CACHE_NONE; "
                               "$wgJobRunRate = 0; }\n")
        elif name == "dokuwiki":
            found[name] = applications.install_dokuwiki(folder, packages)
        elif name == "wordpress":
            found[name] = install_wordpress(folder, database)
        elif name == "phpmyadmin":
            found[name] = install_phpmyadmin(folder, database)
        elif name == "symfony":
            found[name] = os.path.join(HERE, "pages")
        else:
            found[name] = os.path.join(os.path.dirname(HERE), "transaction/php")
    return found
