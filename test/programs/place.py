# SPDX-License-Identifier: MIT
"""Where one run of a program happens: a folder, an environment, a time limit, and what went wrong there."""

import contextlib
import ctypes
import hashlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "scripts")]
import pagewise_statistics  # noqa: E402
from spaceless import spaceless  # noqa: E402

LIBRARIES = {"general": os.path.join(ROOT, "build/lib/libpagewise-general.so"),
             "preload": os.path.join(ROOT, "build/lib/libpagewise-preload.so")}
# What `pagewise run` preloads and sets, with --policy general and without options.
CONFIGURATIONS = {
    "plain": None,
    "general": ("general", "policy=general"),
    "hasty": ("general", "policy=general,slack=0,threshold=8K"),
    "default": ("preload", "policy=auto"),
}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
DROPPED = ("PAGEWISE", "LD_", "MALLOC_", "GIT_", "PYTHON", "RUBY", "NODE_", "JAVA", "_JAVA", "JDK_", "PG", "XDG_", "DBUS_",
           "DISPLAY")
SET_CHILD_SUBREAPER = 36


class Failure(Exception):
    """What went wrong: another output."""


class Crash(Failure):
    """A program was killed by a signal, or ended with another status than it should."""


class Hang(Failure):
    """The time was over."""


class Skip(Exception):
    """The program is not here."""


class Place:
    """Where one run of a program happens."""

    def __init__(self, folder, configuration, limit):
        self.folder = folder
        self.limit = limit
        self.deadline = time.monotonic() + limit
        self.statistics = os.path.join(folder, ".statistics")
        os.makedirs(self.statistics)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)}
        self.environment.update(LC_ALL="C.UTF-8", HOME=folder, TMPDIR=folder, PATH=PATH)
        if CONFIGURATIONS[configuration]:
            library, options = CONFIGURATIONS[configuration]
            self.environment.update(LD_PRELOAD=spaceless(LIBRARIES[library]),
                                    PAGEWISE_OPTIONS=f"{options},statistics={self.statistics}")
        self.user = {}

    def become(self, account):
        """Root gives the folder to this account, whose programs then run there."""
        if os.geteuid() != 0:
            return
        entry = pwd.getpwnam(account)
        os.chmod(os.path.dirname(self.folder), 0o711)
        for path in (self.folder, self.statistics):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        self.user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def remaining(self):
        return max(self.deadline - time.monotonic(), 0.1)

    def run(self, *command, status=0, cwd=None, stderr=False, **more):
        """What the command wrote to standard output; with `stderr`, there and to standard error."""
        process = subprocess.Popen(command, cwd=cwd or self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT if stderr else subprocess.PIPE,
                                   **self.user, **more)
        try:
            said, problems = process.communicate(timeout=self.remaining())
        except subprocess.TimeoutExpired as late:
            raise self.hang(f"{' '.join(command)[:200]}: not over after {self.limit} s", process) from late
        said, problems = (text.decode(errors="replace") for text in (said, problems or b""))
        if process.returncode < 0 or (status is not None and process.returncode != status):
            raise Crash(f"{' '.join(command)[:200]}: {ending(process.returncode)}\n{said[-1500:]}{problems[-1500:]}")
        self.refuse_words_of_ours(problems)
        return said

    @contextlib.contextmanager
    def server(self, *command, log="server.log", stop=signal.SIGTERM, **more):
        with open(self.path(log), "ab") as output:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, **self.user, **more)
        failed = False
        try:
            yield process
        except BaseException:
            failed = True
            raise
        finally:
            process.send_signal(stop)
            try:
                status = process.wait(60)
            except subprocess.TimeoutExpired as late:
                if failed:
                    process.kill()
                    process.wait()
                else:
                    raise self.hang(f"{command[0]} does not end", process) from late
        if status not in (0, -signal.SIGTERM):
            raise Crash(f"{command[0]}: {ending(status)}: {self.read(log)[-1500:]}")
        said = self.read(log)
        self.refuse_words_of_ours(said)
        # How postgres, redis and nginx put it when one of their processes is killed.
        killed = re.search(r"[^\n]*(?:terminated by signal|crashed by signal|exited on signal) (?!15\b)[^\n]*", said)
        if killed:
            raise Crash(killed[0])

    @staticmethod
    def refuse_words_of_ours(text):
        """Pagewise is silent unless it finds a block misused, or cannot be preloaded."""
        line = re.search(r"[^\n]*(?:pagewise: |libpagewise\S* .*cannot be preloaded)[^\n]*", text)
        if line:
            raise Crash(line[0])

    def hang(self, what, process):
        stacks = all_stacks()
        end(descendants(process.pid))
        process.wait()
        return Hang(f"{what}\n{stacks}")


# --- processes --------------------------------------------------------------------------------------------------------


def ending(status):
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def adopt_orphans():
    """What a program leaves behind becomes a child of ours, and is ended before the next one starts."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root):
    """These processes, the eldest first; without `root` itself when it is this process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop(0)
        found.append(pid)
        waiting += sorted(parents.get(pid, []))
    return [pid for pid in found if pid != os.getpid()]


def end(processes):
    for pid in processes:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def end_leftovers(patience=10):
    """Ends what still runs, once it has had the time to end by itself, and collects it. How many there were."""
    until = time.monotonic() + patience
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = descendants(os.getpid())
        if not left or time.monotonic() > until:
            break
        time.sleep(0.05)
    end(left)
    for pid in left:
        with contextlib.suppress(OSError):
            os.waitpid(pid, 0)
    return len(left)


def stack_of(pid):
    """Of all threads, where gdb is installed."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            name = file.read().replace(b"\0", b" ").decode(errors="replace")[:150]
    except OSError:
        return ""
    if not shutil.which("gdb", path=PATH):
        return f"== {pid} {name}\n(no gdb)"
    command = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 30"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False)
        text = done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        text = "(gdb: not over after 90 s)"
    return f"== {pid} {name}\n{text[-20000:]}"


def all_stacks(most=24):
    """Of what runs here: the program that is waited for, and the servers that it may be waiting for."""
    return "\n".join(stack_of(pid) for pid in descendants(os.getpid())[:most])


# --- for programs -----------------------------------------------------------------------------------------------------


def need(command, package):
    if not shutil.which(command, path=PATH):
        raise Skip(f"apt-get install {package}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise Hang(f"nobody listens at port {port}\n{all_stacks()}")


def until(check, what, seconds=60):
    """Asks again until it is so."""
    over = time.monotonic() + seconds
    while not check():
        if time.monotonic() > over:
            raise Hang(f"{what}: not after {seconds} s\n{all_stacks()}")
        time.sleep(0.05)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
