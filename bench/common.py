"""What the benchmark harnesses share: the environment of a run, and the machine."""

import hashlib
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGEWISE = os.path.join(ROOT, "build/bin/pagewise")


def environment():
    """One BLAS thread: the threads of OpenBLAS spin while they wait, which drowns CPU time in noise."""
    # The user's own options, library and preloads are not what is measured.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAGEWISE_") and name != "LD_PRELOAD"}
    return dict(kept, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LC_ALL="C.UTF-8")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def wait_for_port(port):
    """Until a server answers there, on this machine."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"{os.path.basename(sys.argv[0])}: the server does not answer")


def contents(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def processor(cpuinfo):
    """(name, generation). Virtual machines give many generations one name, and a BLAS computes other digits on another one."""
    told = dict(map(str.strip, line.split(":", 1)) for line in cpuinfo.split("\n\n")[0].splitlines() if ":" in line)
    generation = ", ".join(f"{name.removeprefix('cpu ')} {told[name]}" for name in ("cpu family", "model", "stepping") if name in told)
    return told.get("model name", platform.machine()), generation


def release():
    """(name, number) of the system that is installed here, as "Debian GNU/Linux 12 (bookworm)" and "12"; empty where it does not say."""
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {}
    return told.get("PRETTY_NAME", ""), told.get("VERSION_ID", "")


def machine():
    cpu = contents("/proc/cpuinfo")
    name, generation = processor(cpu)
    memory = int((contents("/proc/meminfo").split() or [0, 0])[1]) / 2**20
    virtual = ", virtual" if "hypervisor" in cpu else ""
    huge = contents("/sys/kernel/mm/transparent_hugepage/enabled").strip()
    return [
        ("machine", f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB{virtual}"),
        *([("processor", generation)] if generation else []),
        *([("release", release()[0])] if release()[0] else []),
        ("kernel", f"{platform.system()} {platform.release().split('-')[0]}, transparent huge pages: {huge or 'none'}"),
        ("R", output_of("Rscript", "-e", "cat(R.version.string)")),
        ("BLAS", output_of("Rscript", "-e", "cat(extSoftVersion()[['BLAS']])") + ", one thread"),
        ("Pagewise", output_of(PAGEWISE, "--version")),
    ]


def told(*names):
    """These facts of the machine in a line."""
    return "; ".join(f"{what}: {value}" for what, value in machine() if what in names)


# Debian 12's, as scripts/ensure-packages installs them.
PEERS = "jemalloc 5.3.0, mimalloc 2.0.9, tcmalloc of gperftools 2.10, glibc 2.36: Debian 12's, with their default settings where nothing else is said"


def digest(*parts):
    """Twelve digits that stand for these bytes."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:12]


def code_hash(path):
    """Of the code and constants of a library, so that neither the folder it was built in nor a comment makes another one of it."""
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for section in (".text", ".rodata", ".data"):
            out = os.path.join(folder, "section")
            try:
                subprocess.run(["objcopy", "-O", "binary", "--only-section=" + section, path, out],
                               check=True, capture_output=True)
                with open(out, "rb") as file:
                    parts.append(file.read())
            except (OSError, subprocess.CalledProcessError):
                with open(path, "rb") as file:
                    return digest(file.read())
    return digest(*parts)


OBJECTS = os.path.join(ROOT, "build/core/core/CMakeFiles/pagewise.dir/src")
# All that the transaction heap is made of: it needs no room but these two.
TRANSACTION_ROOMS = ("os", "transaction")


def objects_in(room):
    """The objects of a room and of its folders, by their paths in it."""
    return [os.path.relpath(os.path.join(folder, name), room) for folder, _, names in os.walk(room) for name in names]


def library_hash(rooms=None, besides=("transaction",)):
    """Of the objects that libpagewise is linked from: those of the rooms that what is measured uses (all `besides` these,
    rooms or single files as `room/file.c`, where nothing is said), so that work in another one leaves what was measured."""
    if not os.path.isdir(OBJECTS):
        sys.exit("The library is not built here: make build.")
    parts = []
    for room in sorted(rooms or set(os.listdir(OBJECTS)) - set(besides)):
        for name in sorted(objects_in(os.path.join(OBJECTS, room))):
            if f"{room}/{name.removesuffix('.o')}" in besides:
                continue
            if os.path.exists(os.path.join(ROOT, "core/src", room, name.removesuffix(".o"))):  # else it is left from another day
                with tempfile.NamedTemporaryFile() as out:
                    subprocess.run(["strip", "--strip-debug", "-o", out.name, os.path.join(OBJECTS, room, name)], check=True)
                    parts += [name.encode(), out.read()]
    return digest(*parts)
