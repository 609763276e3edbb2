"""Where the tests come from: R's own, out of Debian's source package, and the examples of installed packages.

What is downloaded or made once stays in a cache outside the clone: $XDG_CACHE_HOME/pagewise, or ~/.cache/pagewise.
"""

import glob
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pagewise")

DEB_SRC = "deb-src http://deb.debian.org/debian {release} main\n"
DEB_SRC_SECURITY = "deb-src http://deb.debian.org/debian-security {release}-security main\n"


def apt(folder, *arguments):
    """Run apt-get with a package index of its own: the system's lists and settings are left as they are."""
    options = {
        "Dir::Etc::sourcelist": os.path.join(folder, "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": os.path.join(folder, "lists"),
        "Dir::Cache": os.path.join(folder, "cache"),
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
    }
    command = ["apt-get", "-qq"] + [f"-o{name}={value}" for name, value in options.items()] + list(arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def release():
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            lines = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
        return lines.get("VERSION_CODENAME", "bookworm") if lines.get("ID") == "debian" else "bookworm"
    except OSError:
        return "bookworm"


def source_lines(name, debian_version):
    """Where the sources are of what is installed. sid calls itself by the name of the release to come, which has them later."""
    if debian_version.strip().endswith("/sid"):
        return [DEB_SRC.format(release=one) for one in (name, "sid")]
    return [line.format(release=name) for line in (DEB_SRC, DEB_SRC_SECURITY)]


def debian_version():
    try:
        with open("/etc/debian_version", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def installed_version(package):
    result = subprocess.run(["dpkg-query", "-W", "-f", "${source:Version}", package], capture_output=True, text=True,
                            check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def r_tests():
    """(folder with R's tests, None) or (None, why not). The version is the installed R's."""
    folder, problem = tests_of("r-base-core", "r-base", ("tests",))
    return (os.path.join(folder, "tests") if folder else None), problem


def tests_of(package, source, folders):
    """(folder with these folders of the source package, None) or (None, why not). The version is the installed one's."""
    version = installed_version(package)
    if not version:
        return None, f"{package} is not Debian's, so its test sources are not known"
    version = re.sub(r"^\d+:", "", version)  # an epoch is in no file name
    target = os.path.join(CACHE, f"{source}-{version}")
    if all(os.path.isdir(os.path.join(target, name)) for name in folders):
        return target, None
    os.makedirs(CACHE, exist_ok=True)
    print(f"# downloading the tests of {source} {version} to {CACHE} (tens of MB, once)", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, name))
        with open(os.path.join(folder, "sources.list"), "w", encoding="utf-8") as file:
            file.write("".join(source_lines(release(), debian_version())))
        for arguments in (("update",), ("source", "--download-only", f"{source}={installed_version(package)}")):
            result = apt(folder, *arguments)
            if result.returncode != 0:
                return None, f"apt-get {' '.join(arguments)} failed: {(result.stderr.strip() or 'no message').splitlines()[-1]}"
        archives = glob.glob(os.path.join(folder, f"{source}_*.orig.tar.*"))
        if not archives:
            return None, "the source package has no .orig.tar"
        with tarfile.open(archives[0]) as archive:
            wanted = [member for member in archive.getmembers()
                      if len(member.name.split("/")) > 1 and member.name.split("/")[1] in folders]
            archive.extractall(folder, wanted)
        os.makedirs(target, exist_ok=True)
        for name in folders:
            shutil.move(os.path.join(folder, wanted[0].name.split("/")[0], name), os.path.join(target, name))
    return target, None


def package_examples(package, environment):
    """(R file with all examples of an installed package, None) or (None, why not)."""
    version = installed_version("r-cran-" + package.lower()) or "local"
    target = os.path.join(CACHE, "examples", f"{package}-{version}", package + "-Ex.R")
    if os.path.exists(target):
        return target, None
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["Rscript", "--vanilla", "-e", f"tools::testInstalledPackage('{package}', types = 'examples')"],
            cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        made = os.path.join(folder, package + "-Ex.R")
        if not os.path.exists(made):
            return None, (result.stderr.strip() or "tools::testInstalledPackage made no examples").splitlines()[-1]
        with open(made, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        # Examples that need a package which is not installed stop with an error: go on with the next call.
        head, separator, rest = text.partition("options(warn = 1)\n")
        text = head + separator + "options(error = expression(NULL))\n" + rest if separator else text
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(target + ".new", target)
    return target, None


def openblas():
    """Folder with an OpenBLAS libblas.so.3: the system's, or one unpacked into the cache; None if there is none."""
    for folder in ("/usr/lib/x86_64-linux-gnu/openblas-pthread",
                   os.path.join(CACHE, "openblas/usr/lib/x86_64-linux-gnu/openblas-pthread")):
        if os.path.exists(os.path.join(folder, "libblas.so.3")):
            return folder
    os.makedirs(CACHE, exist_ok=True)
    # Installing the package would change which BLAS every program on this system uses: unpack it instead.
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        result = subprocess.run(["apt-get", "-qq", "download", "libopenblas0-pthread"], cwd=scratch,
                                capture_output=True, stdin=subprocess.DEVNULL, check=False)
        packages = glob.glob(os.path.join(scratch, "*.deb"))
        if result.returncode != 0 or not packages:
            return None
        subprocess.run(["dpkg", "-x", packages[0], os.path.join(CACHE, "openblas")], check=True)
    return folder if os.path.exists(os.path.join(folder, "libblas.so.3")) else None
