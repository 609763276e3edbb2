#!/usr/bin/env python3
"""The first program of test/aarch64/vm's machine after its init: run the tests of tests.json, print a line of JSON for each.

Each line begins with "@@ ", since the kernel writes to the same console.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

MOST = 40000  # characters of what a test printed: its end says what went wrong


def run(test: dict) -> dict:
    """Run one test as ctest does."""
    environment = dict(os.environ, **dict(pair.split("=", 1) for pair in test["environment"]))
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(test["command"], cwd=test["folder"], env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as problem:
            return {"name": test["name"], "state": "failed", "seconds": 0, "text": f"there is no such program: {problem}"}
        try:
            status = process.wait(timeout=test["seconds"])
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST))
        text = output.read().decode(errors="replace")
    state = {0: "passed", 77: "skipped"}.get(status, "failed")
    if status is None:
        text += f"\ntime: it was ended after {test['seconds']} s"
    elif status < 0:
        text += f"\nsignal: it was ended by {signal.Signals(-status).name}"
    return {"name": test["name"], "state": state, "seconds": round(time.monotonic() - start), "text": text}


def main() -> None:
    """Run them one after the other."""
    with open("/tests.json", encoding="utf-8") as file:
        tests = json.load(file)
    for test in tests:
        print("@@ " + json.dumps({"name": test["name"], "state": "begins"}), flush=True)
        sys.stdout.write("@@ " + json.dumps(run(test)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
