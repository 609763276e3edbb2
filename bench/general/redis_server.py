"""A redis server under an allocator, its load, and what it took."""

import os
import subprocess
import time

from common import contents, environment, wait_for_port
from running import RunFailed

PORT = 16380
LOAD = ("-t", "set,get,lpush", "-n", "200000", "-r", "200000", "-d", "300", "-P", "16", "-c", "20", "-q")


def measure(settings: dict[str, str], folder: str, settle: int) -> dict[str, float]:
    """Seconds, CPU seconds, memory at the peak and after `settle` seconds, and mappings of the server."""
    words = ["redis-server", "--port", str(PORT), "--save", "", "--appendonly", "no", "--dir", folder, "--io-threads", "1"]
    with subprocess.Popen(words, env={**environment(), **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for_port(PORT)
            started = time.monotonic()
            load = subprocess.run(["redis-benchmark", "-p", str(PORT), *LOAD], env=environment(), stdout=subprocess.DEVNULL, check=False)
            seconds = time.monotonic() - started
            if load.returncode:
                raise RunFailed(f"redis-benchmark: exit status {load.returncode}")
            used, peak, mappings = _cpu_seconds(server.pid), _status(server.pid, "VmHWM"), len(contents(f"/proc/{server.pid}/maps").splitlines())
            time.sleep(settle)
            after = _status(server.pid, "VmRSS")
        finally:
            server.terminate()
    return {"seconds": round(seconds, 4), "cpu_seconds": used, "peak_kb": peak, "mappings": mappings, "after_kb": after}


def _cpu_seconds(pid: int) -> float:
    fields = contents(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def _status(pid: int, name: str) -> float:
    return next((float(line.split()[1]) for line in contents(f"/proc/{pid}/status").splitlines() if line.startswith(name + ":")), 0.0)
