"""Too little memory (DLS'14, table 5): a memory cgroup with a limit and a swap file, both made and removed here. Root only."""

import os
import shutil
import subprocess
import time

from common import ROOT

SWAP_BYTES = 6 << 30
# The paper's 1024 MB, as parts of what plain R needed at the peak there: 1365 MB (lssvm), 1228 MB (logreg).
LIMITS = {"lssvm": 1024 / 1365.1, "logreg": 1024 / 1228.2}
CONFIGURATIONS = ("plain", "auto", "auto zero=off", "auto relieve=off")
# A run that takes so many times what it takes with enough memory is stopped: "more than".
PATIENCE = 30


class Unavailable(Exception):
    """This machine does not let us make the situation; the message says what is missing."""


def scales(scale):
    """(workload, scale of its sizes): the paper takes lssvm as it is, and a logreg of about the same memory."""
    large = {"full": "large", "small": "small-large"}.get(scale, scale)
    return [("lssvm", scale), ("logreg", large)]


def _run(*words, **how):
    """One of the system's commands, which a plain `su`, or cron, has not on its path."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ, PATH=path), executable=shutil.which(words[0], path=path), **how)


def is_swapped_to(path):
    with open("/proc/swaps", encoding="utf-8", errors="replace") as file:
        return any(line.split()[:1] == [os.path.realpath(path)] for line in file)


class SwapFile:
    def __init__(self, path=os.path.join(ROOT, "build/bench/swapfile"), size=SWAP_BYTES):
        self.path, self.size = path, size

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("a swap file needs root: sudo make bench-r PART=table5")
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
    """A memory cgroup below the harness's own (v1), or beside it (v2: a group with processes has no controlled children)."""

    def __init__(self, limit, proc="/proc/self", name="pagewise-bench"):
        self.limit = limit
        self.home, self.is_v2 = own_group(proc)
        parent = os.path.dirname(self.home) if self.is_v2 and self.home.rstrip("/") != "/sys/fs/cgroup" else self.home
        self.folder = os.path.join(parent, f"{name}-{os.getpid()}")

    def __enter__(self):
        try:
            os.mkdir(self.folder)
            if self.is_v2:
                self._enable_controller()
            name = "memory.max" if self.is_v2 else "memory.limit_in_bytes"
            _write(os.path.join(self.folder, name), str(self.limit))
        except OSError as error:
            self.__exit__()
            raise Unavailable(f"no memory cgroup with a limit: {error}") from error
        return self

    def _enable_controller(self):
        """Children have memory.max only where their parent hands the controller down."""
        try:
            _write(os.path.join(os.path.dirname(self.folder), "cgroup.subtree_control"), "+memory")
        except OSError:
            pass  # writing the limit will say so

    def enter(self):
        """For the child, between fork and exec."""
        _write(os.path.join(self.folder, "cgroup.procs"), "0")

    def __exit__(self, *_):
        for _attempt in range(50):
            for path, _folders, _files in os.walk(self.folder, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass
            if not os.path.isdir(self.folder):
                return
            time.sleep(0.1)


def own_group(proc="/proc/self"):
    """(folder of this process's memory cgroup, is it version 2)."""
    with open(os.path.join(proc, "cgroup"), encoding="ascii") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
    with open(os.path.join(proc, "mounts"), encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for _number, controllers, path in groups:
        if "memory" in controllers.split(","):
            mount = next((m[1] for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")), None)
            if mount:
                return _existing(mount, path), False
    path = next((path for number, _, path in groups if number == "0"), None)
    mount = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if path is None or mount is None:
        raise Unavailable("no memory cgroup is mounted")
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
