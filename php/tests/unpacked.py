"""Debian's packages, unpacked under build/test and not installed: some would start a server, or change what a command is."""

import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def php_version():
    return subprocess.run([os.path.join(ROOT, "scripts/php-version")], check=True, capture_output=True, text=True).stdout.strip()


def unpacked(name, *packages):
    """The folder that they are in, or None where they cannot be downloaded."""
    folder = os.path.join(ROOT, "build/test", name)
    if os.path.isdir(folder):
        return folder
    new = folder + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    # Of PHP's own version: another one's lacks symbols of the extensions that are installed.
    php = php_version()
    version = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}", f"php{php}-cli"], capture_output=True, text=True).stdout
    wanted = [f"{package}={version}" if php in package else package for package in packages]
    if subprocess.run(["apt-get", "download", *wanted], cwd=new, capture_output=True).returncode != 0:
        return None
    for package in [name for name in os.listdir(new) if name.endswith(".deb")]:
        subprocess.run(["dpkg", "-x", package, "."], cwd=new, check=True)
    os.rename(new, folder)
    return folder


def lacks_libraries(*files):
    return "not found" in subprocess.run(["ldd", *files], capture_output=True, text=True).stdout
