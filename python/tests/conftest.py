"""Programs that the tests run: in interpreters of their own, plain and with Pagewise, and the same output is expected."""

import os
import subprocess
import sys
import sysconfig
import tempfile
import textwrap

import pytest

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = os.environ.get("PAGEWISE_COMMAND", os.path.join(TREE, "build", "bin", "pagewise"))
WAYS = ["on", "run"]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_free_threading = pytest.mark.skipif(not FREE_THREADED, reason="not a free-threaded Python (3.13t, 3.14t)")
# on() in the process of the tests themselves.
needs_lock = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="on() is refused in a Python that runs without its lock"
)


def run_python(program, *, way="plain", options="", warnings="error", timeout=240, lock=None):
    """Run a program with Pagewise switched on inside ("on"), from outside ("run"), or plain; return its output.

    A free-threaded Python runs without its lock, but where Pagewise is switched on inside; `lock` says otherwise.
    """
    text = textwrap.dedent(program)
    without = ("LD_PRELOAD", "PAGEWISE_OPTIONS", "PYTHON_GIL")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    if FREE_THREADED:
        locked = way == "on" or "pagewise.on(" in text if lock is None else lock
        environment["PYTHON_GIL"] = "1" if locked else "0"
    words = dict(item.split("=") for item in options.split(",") if item)
    if way == "on":
        text = f"import pagewise\npagewise.on(**{words!r})\n{text}"
    # A file: processes that a program spawns read it again.
    with tempfile.TemporaryDirectory() as folder:
        program_file = os.path.join(folder, "program.py")
        with open(program_file, "w", encoding="utf-8") as file:
            file.write(text)
        command = [sys.executable, "-W", warnings, program_file]
        if way == "run":
            policy = words.pop("policy", "auto")
            others = ",".join(f"{name}={word}" for name, word in words.items())
            given = ["--options", others] if others else []
            command = [COMMAND, "run", "--quiet", "--policy", policy, *given, "--", *command]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{way}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def same_output():
    """Run a program in every way and expect the plain one's output."""

    def check(program, options="", **more):
        plain = run_python(program, **more).stdout
        assert plain
        for way in WAYS:
            assert run_python(program, way=way, options=options, **more).stdout == plain, way

    return check
