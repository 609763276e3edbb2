"""nginx in front of php-fpm, in one configuration of the allocator, and what its workers use."""

import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.path.join(ROOT, "build/lib/php/pagewise.so")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def ours(mode, **options):
    return [f"extension={LIBRARY}", f"pagewise.mode={mode}"] + [f"pagewise.{name}={value}" for name, value in options.items()], {}


CONFIGURATIONS = {
    "native": ([], {}),
    "native again": ([], {}),
    "native, huge pages": ([], {"USE_ZEND_ALLOC_HUGE_PAGES": "1"}),
    "pass-through": ours("pass-through"),
    "region": ours("region"),
    "region, huge pages": ours("region", huge_pages=1),
    "transaction": ours("transaction"),
    "transaction, huge pages": ours("transaction", huge_pages=1),
    # Its thread-local data must come with the program, or with room that the dynamic linker left.
    "jemalloc": (ours("malloc", malloc=f"{LIBRARIES}/libjemalloc.so.2")[0], {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"}),
    "mimalloc": ours("malloc", malloc=f"{LIBRARIES}/libmimalloc.so.2.0"),
    "tcmalloc": ours("malloc", malloc=f"{LIBRARIES}/libtcmalloc_minimal.so.4"),
}
# What a log says where a configuration would be measured that is PHP's own.
NOT_ITSELF = ("PHP keeps its own allocator", "Unable to load dynamic library")
SETTINGS = ["opcache.enable=1", "opcache.validate_timestamps=0", "memory_limit=512M", "date.timezone=UTC", "display_errors=0"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stack:
    def __init__(self, root, configuration, workers=1):
        self.folder = tempfile.mkdtemp(prefix="pagewise-bench-php-")
        self.port = free_port()
        options, environment = CONFIGURATIONS[configuration]
        self.write("fpm.conf", f"""[global]
error_log={self.folder}/fpm.log
daemonize=no
[www]
listen={self.folder}/socket
pm=static
pm.max_children={workers}
clear_env=no
{"user=root" if os.geteuid() == 0 else ""}
""")
        self.write("nginx.conf", f"""daemon off; worker_processes 1; pid {self.folder}/nginx.pid; error_log {self.folder}/nginx.log;
{"user root;" if os.geteuid() == 0 else ""}
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p; fastcgi_temp_path {self.folder}/f;
  uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s; fastcgi_buffers 256 16k; keepalive_requests 100000;
  server {{
    listen 127.0.0.1:{self.port}; root {root};
    location ~ ^(?<script>/.*\\.php) {{
      include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$script; fastcgi_param HTTP_HOST localhost;
      fastcgi_param SERVER_NAME localhost; fastcgi_param SERVER_PORT 80; fastcgi_param REMOTE_PORT 1;
      fastcgi_pass unix:{self.folder}/socket;
    }}
  }}
}}
""")
        values = [word for value in SETTINGS + options for word in ("-d", value)]
        values += ["-R"] if os.geteuid() == 0 else []
        self.fpm = subprocess.Popen(["php-fpm8.2", "-F", "-y", f"{self.folder}/fpm.conf", *values], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=open(f"{self.folder}/fpm.err", "wb"),
                                    env=dict(os.environ, **environment))
        self.nginx = subprocess.Popen(["nginx", "-p", self.folder, "-c", f"{self.folder}/nginx.conf"], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait(configuration)
        except BaseException:
            self.end()
            raise

    def wait(self, configuration):
        for _ in range(300):
            with socket.socket() as probe:
                if os.path.exists(f"{self.folder}/socket") and probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.1)
        else:
            sys.exit("bench-php: the servers do not start:\n" + self.said())
        self.first_workers = self.workers()
        if any(sign in self.said() for sign in NOT_ITSELF):
            sys.exit(f"bench-php: {configuration} is not what it says:\n" + self.said())

    def said(self):
        return "".join(open(f"{self.folder}/{name}", encoding="utf-8", errors="replace").read()
                       for name in ("fpm.log", "fpm.err", "nginx.log") if os.path.exists(f"{self.folder}/{name}"))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def workers(self):
        pid = self.fpm.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return sorted(int(word) for word in file.read().split())

    def client(self):
        """A function that asks for a page, over a connection that is kept: its answer's status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

        def ask(page):
            connection.request("GET", page, headers={"Host": "localhost"})
            answer = connection.getresponse()
            return answer.status, answer.read()

        return ask

    def cpu_seconds(self):
        total = 0
        for pid in self.workers():
            with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def faults(self):
        """Pages that the workers were given since they began, the minor faults."""
        total = 0
        for pid in self.workers():
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                total += int(file.read().rsplit(")", 1)[1].split()[7])
        return total

    def memory(self):
        """Bytes of the workers' own memory now: anonymous pages, huge ones included."""
        total = 0
        for pid in self.workers():
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
        return total * 1024

    def at_rest(self):
        before, now = -1, self.memory()
        while now != before:
            time.sleep(0.3)
            before, now = now, self.memory()
        return now

    def close(self):
        """Ends everything; True when all workers lived to the end."""
        try:
            alive = self.workers() == self.first_workers
        except OSError:
            alive = False
        self.end()
        return alive

    def end(self):
        for process in (self.nginx, self.fpm):
            process.terminate()
            process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


class Sampler(threading.Thread):
    """Memory of the workers, every 20 ms while they serve: with it as a context."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.samples = stack, []
        self.serves, self.stopped = threading.Event(), False
        self.start()

    def __enter__(self):
        self.serves.set()

    def __exit__(self, *_):
        self.serves.clear()

    def run(self):
        while self.serves.wait() and not self.stopped:
            try:
                self.samples.append(self.stack.memory())
            except OSError:
                return
            time.sleep(0.02)

    def stop(self):
        self.stopped = True
        self.serves.set()
        self.join()
        return self.samples


def words(body):
    return re.findall(rb"\w+|\W", body)


class Expected:
    """What a page's answer is without us. Words in which native answers of the same number of words differ (times, tokens)
    do not count; where that number is a different one each time, only the length can be compared, within a hundredth."""

    FEW = 4

    def __init__(self, answers):
        self.status, body = answers[0]
        self.length = len(body)
        self.variants = {}  # by their number of words: the first one's, and which of them are the same in all
        for answer in answers:
            self.learn(*answer)

    def learn(self, status, body):
        """One more native answer. Another status is an error, not a page that differs."""
        if status != self.status:
            return
        found = words(body)
        first, fixed = self.variants.get(len(found), (found, [True] * len(found)))
        self.variants[len(found)] = first, [same and one == other for same, one, other in zip(fixed, found, first)]

    def accepts(self, status, body):
        if status != self.status:
            return False
        found = words(body)
        if len(found) in self.variants:
            first, fixed = self.variants[len(found)]
            return all(one == other or not same for same, one, other in zip(fixed, found, first))
        return len(self.variants) >= self.FEW and abs(len(body) - self.length) <= self.length / 100 + 16

    def difference(self, status, body):
        """Where an answer first leaves what is expected, in words for a reader: what is there and what should be."""
        if status != self.status:
            return f"status {status}, not {self.status}"
        found = words(body)
        first, fixed = self.variants.get(len(found)) or next(iter(self.variants.values()))
        place = next((number for number, (one, other) in enumerate(zip(found, first))
                      if one != other and (len(fixed) != len(found) or fixed[number])), min(len(found), len(first)))
        there, expected = (" ".join(b"".join(text[max(place - 8, 0):place + 24]).decode(errors="replace").split()) for text in (found, first))
        return f"{len(body)} bytes, not {self.length}: '{there}' where '{expected}' is expected"
