"""Too little memory (DLS'14, table 5): a memory cgroup with a limit and a swap file, both made and removed here. Root only.

What swapping costs depends on the disk, and the paper does not say which it had: so reads and writes are held to the speed of slower disks as well."""

import os
import re
import shutil
import subprocess
import time

from common import ROOT

SWAP_BYTES = 6 << 30
# The paper's 1024 MB, as parts of what plain R needed at the peak there: 1365 MB (lssvm), 1228 MB (logreg).
LIMITS = {"lssvm": 1024 / 1365.1, "logreg": 1024 / 1228.2}
# A limit that plain R exceeds for most of its run, as parts of the same peak: only where Pagewise needs less than that.
SHORTER_LIMITS = {"lssvm": 0.62}
CONFIGURATIONS = ("plain", "auto", "auto zero=off", "auto relieve=off")
# Bytes a second of Azure's Standard HDD, in large requests (60 MB/s) and in the 500 requests a second that it grants, where each is of the eight
# pages that Linux reads ahead from swap (vm.page-cluster=3): 16 MB/s. A laptop's disk of the paper's day lies between, or below.
SLOWER_DISKS = {"short, 60 MB/s": 60_000_000, "short, 16 MB/s": 16_000_000}
SHORTER = "shorter"
SHORT = ("short", *SLOWER_DISKS, SHORTER)
# A run that takes so many times what it takes with enough memory is stopped: "more than".
PATIENCE = 30


class Unavailable(Exception):
    """This machine does not let us make the situation; the message says what is missing."""


def scales(scale):
    """(workload, scale of its sizes): the paper takes lssvm as it is, and a logreg of about the same memory."""
    large = {"full": "large", "small": "small-large"}.get(scale, scale)
    return [("lssvm", scale), ("logreg", large)]


def situations(workload):
    """(memory, configurations that are run there); besides enough memory and the paper's limit only what the speed-up is made of."""
    return [(memory, CONFIGURATIONS if memory in ("enough", "short") else CONFIGURATIONS[:2])
            for memory in ("enough", *SHORT) if memory != SHORTER or workload in SHORTER_LIMITS]


def limit_share(workload, memory):
    """The limit of a short memory, as part of plain R's peak."""
    return (SHORTER_LIMITS if memory == SHORTER else LIMITS)[workload]


def _run(*words, **how):
    """One of the system's commands, which a plain `su`, or cron, has not on its path."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ, PATH=path), executable=shutil.which(words[0], path=path), **how)


def is_swapped_to(path):
    # As the kernel writes names there.
    name = re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", os.path.realpath(path))
    with open("/proc/swaps", encoding="utf-8", errors="replace") as file:
        return any(line.split()[:1] == [name] for line in file)


def need_root():
    if os.geteuid() != 0:
        raise Unavailable("a swap file needs root: sudo make bench-r PART=table5")


class SwapFile:
    def __init__(self, path=os.path.join(ROOT, "build/bench/swapfile"), size=SWAP_BYTES):
        self.path, self.size = path, size

    def __enter__(self):
        need_root()
        self._remove()
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
            finally:
                os.close(descriptor)
            for command in ("mkswap", "swapon"):
                done = _run(command, self.path)
                if done.returncode:
                    raise Unavailable(f"{command} failed: {done.stderr.strip()}")
        except (OSError, Unavailable) as error:
            self._remove()
            raise Unavailable(f"no swap file: {error}") from error
        return self

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        """Also what a killed run has left. A file that is still swapped to stays: without its name nobody could end that."""
        if os.path.exists(self.path):
            # In a session of its own: a Ctrl-C is for us, and swapoff takes its time.
            try:
                said = _run("swapoff", self.path, start_new_session=True).stderr.strip()
            except OSError as error:
                said = str(error)
            if is_swapped_to(self.path):
                raise Unavailable(f"{self.path} is still swapped to: {said}. Type: swapoff {self.path} && rm {self.path}")
            os.unlink(self.path)


class Group:
    """Cgroups below the harness's own (v1), or beside it (v2: a group with processes has no controlled children): of memory, limited to
    so many bytes, and, where `disk` is (number of a block device, bytes a second), of its reads and its writes. Under v2 both are one."""

    def __init__(self, limit, proc="/proc/self", name="pagewise-bench", disk=None):
        self.limit, self.disk = limit, disk
        self.folder, self.is_v2 = _new_group("memory", proc, name)
        self.disk_folder, self.disk_is_v2 = _new_group("blkio", proc, name) if disk else (self.folder, self.is_v2)
        self.folders = list(dict.fromkeys((self.folder, self.disk_folder)))

    def __enter__(self):
        try:
            self._limit("memory", self.folder, self.is_v2, {"memory.max" if self.is_v2 else "memory.limit_in_bytes": str(self.limit)})
            if self.disk:
                device, rate = self.disk
                self._limit("disk", self.disk_folder, self.disk_is_v2,
                            {"io.max": f"{device} rbps={rate} wbps={rate}"} if self.disk_is_v2 else
                            {f"blkio.throttle.{what}_bps_device": f"{device} {rate}" for what in ("read", "write")})
        except Unavailable:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _limit(what, folder, is_v2, settings):
        try:
            if not os.path.isdir(folder):
                os.mkdir(folder)
            if is_v2:
                Group._hand_down(folder, "+memory" if what == "memory" else "+io")
            for name, text in settings.items():
                _write(os.path.join(folder, name), text)
        except OSError as error:
            raise Unavailable(f"no {what} cgroup with a limit: {error}") from error

    @staticmethod
    def _hand_down(folder, controller):
        """Children have a controller's files only where their parent says so."""
        try:
            _write(os.path.join(os.path.dirname(folder), "cgroup.subtree_control"), controller)
        except OSError:
            pass  # writing the limit will say so

    def enter(self):
        """For the child, between fork and exec."""
        for folder in self.folders:
            _write(os.path.join(folder, "cgroup.procs"), "0")

    def __exit__(self, *_):
        for _attempt in range(50):
            for folder in self.folders:
                for path, _folders, _files in os.walk(folder, topdown=False):
                    try:
                        os.rmdir(path)
                    except OSError:
                        pass
            if not any(os.path.isdir(folder) for folder in self.folders):
                return
            time.sleep(0.1)


def disk_of(path):
    """The number (major:minor) of the whole disk that a file is on: partitions cannot be held to a speed."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    folder = os.path.realpath(f"/sys/dev/block/{number}")
    if not os.path.isdir(folder):
        raise Unavailable(f"{path} is on no block device of its own, whose speed could be limited")
    if not os.path.exists(os.path.join(folder, "partition")):
        return number
    with open(os.path.join(os.path.dirname(folder), "dev"), encoding="ascii") as file:
        return file.read().strip()


def _new_group(controller, proc, name):
    """(folder of a group yet to be made, is it of version 2)."""
    home, is_v2 = own_group(proc, controller)
    parent = os.path.dirname(home) if is_v2 and home.rstrip("/") != "/sys/fs/cgroup" else home
    return os.path.join(parent, f"{name}-{os.getpid()}"), is_v2


def own_group(proc="/proc/self", controller="memory"):
    """(folder of this process's cgroup of a controller, is it version 2). `controller` has version 1's name."""
    with open(os.path.join(proc, "cgroup"), encoding="ascii") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    with open(os.path.join(proc, "mounts"), encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for _number, controllers, path in groups:
        if controller in controllers.split(","):
            mount = next((m[1] for m in mounts if m[2] == "cgroup" and controller in m[3].split(",")), None)
            if mount:
                return _existing(mount, path), False
    path = next((path for number, _, path in groups if number == "0"), None)
    mount = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if path is None or mount is None:
        raise Unavailable(f"no {controller} cgroup is mounted")
    return _existing(mount, path), True


def _existing(mount, path):
    """In a container the path may be the host's and missing here."""
    folder = os.path.join(mount, path.lstrip("/"))
    return folder if os.path.isdir(folder) else mount


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def roomy_limit():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 * 3
