# SPDX-License-Identifier: MIT
"""A kernel that works on the pages of programs by itself: KSM merges them, and a group's limit swaps them out."""

import os
import subprocess

KSM = "/sys/kernel/mm/ksm"
BUSY = {"run": "1", "pages_to_scan": "5000", "sleep_millisecs": "5", "smart_scan": "0", "use_zero_pages": "1"}
GROUPS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
LIMITS = ("memory.limit_in_bytes", "memory.high")
SWAP_MB, GROUP_MB, R_GROUP_MB = 1024, 64, 192


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


class Machine:
    """As root: both are on until close(). Programs are told to merge, and enter the group by enter()."""

    def __init__(self, folder):
        self.before, self.swap, self.group, self.deaths = {}, None, None, 0
        self.start = self.counters()
        try:
            self.merge()
            self.take_pages(folder)
        except BaseException:
            self.close()
            raise

    def merge(self):
        for name, value in BUSY.items():
            path = os.path.join(KSM, name)
            if os.path.exists(path):
                self.before[path] = read(path)
                write(path, value)

    def take_pages(self, folder):
        file = os.path.join(folder, f"hostile-{os.getpid()}.swap")
        self.swap = file
        with open(file, "wb") as made:
            os.fchmod(made.fileno(), 0o600)
            os.posix_fallocate(made.fileno(), 0, SWAP_MB << 20)
        subprocess.run(["mkswap", file], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", file], check=True)
        for parent in GROUPS:
            group = os.path.join(parent, f"hostile-{os.getpid()}")
            try:
                os.mkdir(group)
                self.group = group
                self.limit = next(path for path in (os.path.join(group, name) for name in LIMITS)
                                  if os.path.exists(path))
                return
            except (OSError, StopIteration):
                self.leave_group()
        raise OSError("no control group limits memory here")

    def set_limit(self, in_r):
        write(self.limit, str((R_GROUP_MB if in_r else GROUP_MB) << 20))

    def enter(self):
        """In a child, before its program."""
        write(os.path.join(self.group, "cgroup.procs"), str(os.getpid()))

    def has_killed(self):
        """Was something killed for the limit since this was last asked?"""
        for name in ("memory.oom_control", "memory.events"):
            path = os.path.join(self.group, name)
            if os.path.exists(path):
                deaths = int(dict(line.split() for line in read(path).splitlines())["oom_kill"])
                before, self.deaths = self.deaths, deaths
                return deaths > before
        return False

    @staticmethod
    def counters():
        counters = dict(line.split() for line in read("/proc/vmstat").splitlines())
        return int(counters.get("cow_ksm", 0)), int(counters["pswpout"])

    def pages(self):
        """Merged pages that were written, and pages swapped out, since the start."""
        return tuple(now - then for now, then in zip(self.counters(), self.start))

    def leave_group(self):
        if self.group:
            os.rmdir(self.group)
            self.group = None

    def close(self):
        """Everything as it was."""
        self.leave_group()
        for path, value in self.before.items():
            write(path, value)
        if self.swap:
            subprocess.run(["swapoff", self.swap], check=False, stderr=subprocess.DEVNULL)
            if os.path.exists(self.swap):
                os.unlink(self.swap)
