#!/usr/bin/env python3
"""Inside a virtual machine: run the tests of a list as ctest does, and print a line of JSON for each.

Each line begins with "@@ ", since the kernel writes to the same console.
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

MOST = 40000  # characters of what a test printed that did not pass: its end says what went wrong
PASSED_CASE = re.compile(r"^\[       OK \] \w+$", re.M)  # cmocka's: all that is told of a test that passed


def run(test: dict[str, Any]) -> dict[str, Any]:
    """Run one test, and end it with all its children when its time is over."""
    environment = dict(os.environ, **dict(pair.split("=", 1) for pair in test["environment"]))
    start = time.monotonic()
    late = False
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(test["command"], cwd=test["folder"], env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(timeout=test["seconds"])
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST))
        text = output.read().decode(errors="replace")
    state = {0: "passed", 77: "skipped"}.get(process.returncode, "failed")
    if late:
        text += f"\ntime: it was ended after {test['seconds']:g} s"
    elif process.returncode < 0:
        text += f"\nsignal: it was ended by {signal.Signals(-process.returncode).name}"
    if state == "passed" and not test["tell"]:  # the console of an emulated machine is slow
        text = "\n".join(PASSED_CASE.findall(text))
    return {"name": test["name"], "state": state, "seconds": round(time.monotonic() - start), "text": text}


def say(what: dict[str, Any], lock: threading.Lock) -> None:
    """Print one line, whole."""
    with lock:
        sys.stdout.write("\n@@ " + json.dumps(what) + "\n")
        sys.stdout.flush()


def work(waiting: "queue.SimpleQueue[dict[str, Any]]", lock: threading.Lock) -> None:
    """Run tests until there are none."""
    while True:
        try:
            test = waiting.get_nowait()
        except queue.Empty:
            return
        say({"name": test["name"], "state": "begins"}, lock)
        try:
            said = run(test)
        except (OSError, ValueError) as problem:
            said = {"name": test["name"], "state": "failed", "seconds": 0, "text": f"there is no such program: {problem}"}
        say(said, lock)


def main(path: str) -> None:
    """Run all of the list, as many at a time as it says."""
    with open(path, encoding="utf-8") as file:
        wanted = json.load(file)
    lock = threading.Lock()
    machine = os.uname()
    say({"kernel": machine.release, "page": os.sysconf("SC_PAGE_SIZE"), "processors": os.cpu_count()}, lock)
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for test in wanted["tests"]:
        waiting.put(test)
    workers = [threading.Thread(target=work, args=(waiting, lock)) for _ in range(wanted["jobs"])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1])
