"""Programs that the tests run: in interpreters of their own, plain and with Pagewise, and the same output is expected."""

import os
import subprocess
import sys
import tempfile
import textwrap

import pytest

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = os.environ.get("PAGEWISE_COMMAND", os.path.join(TREE, "build", "bin", "pagewise"))
WAYS = ["on", "run"]


def run_python(program, *, way="plain", options="", warnings="error", timeout=240):
    """Run a program with Pagewise switched on inside ("on"), from outside ("run"), or plain; return its output."""
    text = textwrap.dedent(program)
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PAGEWISE_OPTIONS")}
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
