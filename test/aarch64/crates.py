"""The tests of the command and of the trace's crates, built by cargo for aarch64 and run under qemu-user."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from places import BUILD, HERE, ROOT, SYSROOT  # isort: skip  (says where outcomes are)
from outcomes import Limit, Outcome, limit_of

TARGET = "aarch64-unknown-linux-gnu"
PACKAGES = ("pagewise-cli", "intervals", "trace-analysis", "trace-format", "metis")
CARGO = os.path.join(ROOT, "scripts/with-cargo")
TOOLS = os.path.join(BUILD, "tools")
RUST = os.path.join(BUILD, "rust")
# Of one file of tests: what has not ended by then has failed.
SECONDS = int(os.environ.get("PAGEWISE_AARCH64_SECONDS") or 3600)
RESULT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (?:.* )?(ok|FAILED|ignored)(?:, .*)?$", re.M)
STATES = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


@dataclass
class Program:
    """One file of tests."""

    name: str  # package.target
    path: str
    folder: str


def environment() -> dict[str, str]:
    """Give cargo's environment."""
    found = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PAGEWISE_OPTIONS")}
    found.setdefault("CARGO_TARGET_DIR", os.path.join(ROOT, "build/cargo"))
    found["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"] = "aarch64-linux-gnu-gcc"
    if os.path.exists(f"{RUST}.ready"):
        found["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS"] = f"--sysroot={RUST}/usr"
    return found


def has_standard_library() -> bool:
    """Does the compiler have Rust's standard library for aarch64?"""
    asked = [CARGO, "rustc", "--quiet", "--locked", "--package", "intervals", "--lib", "--profile", "test", "--target", TARGET]
    done = subprocess.run([*asked, "--", "--print", "target-libdir"], cwd=ROOT, env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.returncode == 0 and os.path.exists(done.stdout.strip())


def standard_library() -> None:
    """Get that library where it is missing: from rustup where there is one, else Debian's, which is unpacked."""
    if has_standard_library():
        return
    if shutil.which("rustup"):
        command = ["rustup", "target", "add", TARGET]
    else:
        package = subprocess.run([os.path.join(ROOT, "scripts/ensure-packages"), "--name", "rustc"], stdout=subprocess.PIPE, text=True, check=True)
        library = f"libstd-{package.stdout.strip().replace('rustc', 'rust')}-dev"
        command = ["env", "ALONE=1", os.path.join(HERE, "unpack"), RUST, ".", "arm64", library]
    print(f"Rust's standard library for aarch64 is not here yet. About to run:\n    {' '.join(command)}", flush=True)
    done = subprocess.run(command, check=False)
    if done.returncode or not has_standard_library():
        sys.exit("test/aarch64: this compiler of Rust has no standard library for aarch64. No test was run")


def build() -> list[Program]:
    """Build the tests, and the command that they start."""
    standard_library()
    words = [word for package in PACKAGES for word in ("--package", package)]
    command = [CARGO, "test", "--quiet", "--locked", "--no-run", "--target", TARGET, "--message-format", "json-render-diagnostics", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"test/aarch64: failed: {' '.join(command)}. No test was run")
    programs = [made(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    return [program for program in programs if program]


def command() -> str:
    """Build the command for aarch64, as it is installed, and give its path."""
    standard_library()
    words = [CARGO, "build", "--quiet", "--release", "--locked", "--target", TARGET, "--package", "pagewise-cli"]
    if subprocess.run(words, cwd=ROOT, env=environment(), check=False).returncode:
        sys.exit(f"test/aarch64: failed: {' '.join(words)}. Nothing was run")
    return os.path.join(environment()["CARGO_TARGET_DIR"], TARGET, "release/pagewise")


def made(message: dict) -> Program | None:
    """Read one of cargo's messages: what it made, if that is a file of tests."""
    if message.get("reason") != "compiler-artifact" or not message.get("executable") or not message["profile"]["test"]:
        return None
    folder = os.path.dirname(message["manifest_path"])
    # ...folder#NAME@VERSION, or ...NAME#VERSION
    place, _, version = message["package_id"].rpartition("#")
    package = version.partition("@")[0] if "@" in version else os.path.basename(place)
    target = message["target"]
    kind = {"test": target["name"], "bin": "main", "example": f"example-{target['name']}"}.get(target["kind"][0], "lib")
    return Program(f"{package}.{kind}", message["executable"], folder)


def tools() -> str:
    """Make the compilers that the tests call findable by their plain names, and give the search path."""
    os.makedirs(TOOLS, exist_ok=True)
    for name, cross in (("cc", "gcc"), ("gcc", "gcc"), ("c++", "g++"), ("g++", "g++")):
        path = os.path.join(TOOLS, name)
        if os.path.lexists(path):
            os.unlink(path)
        found = shutil.which(f"aarch64-linux-gnu-{cross}")
        os.symlink(found or f"aarch64-linux-gnu-{cross}", path)
    return ":".join([TOOLS, os.path.join(SYSROOT, "usr/bin"), os.path.join(SYSROOT, "bin"), os.environ.get("PATH", "")])


def run(programs: Sequence[Program], inside: Callable[..., list[str]], limits: Sequence[Limit], pattern: str) -> list[Outcome]:
    """Run the tests whose names hold the pattern, one file after the other."""
    # Set inside: until then this machine's own programs are meant.
    settings = [f"PATH={tools()}", "CC=aarch64-linux-gnu-gcc", "CXX=aarch64-linux-gnu-g++", f"PAGEWISE_TEST_LIBRARIES={os.path.join(BUILD, 'lib')}"]
    return [outcome for program in programs for outcome in run_program(program, inside("env", *settings, program.path), limits, re.compile(pattern))]


def run_program(program: Program, command: Sequence[str], limits: Sequence[Limit], pattern: re.Pattern[str]) -> list[Outcome]:
    """Run one file of tests."""
    listed = subprocess.run([*command, "--list", "--format", "terse"], env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode:
        return [Outcome(f"{program.name}/--list", "failed", "it does not say which tests it has")]
    tests = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
    tests = [test for test in tests if pattern.search(f"{program.name}/{test}")]
    known = {test: limit_of(f"{program.name}/{test}", limits) for test in tests}
    left = [test for test, limit in known.items() if limit and limit.kind == "leave"]
    wanted = [test for test in tests if test not in left]
    outcomes = [Outcome(f"{program.name}/{test}", "left", limit=known[test]) for test in left]
    if not wanted:
        return outcomes
    print(f"-- {program.name}: {len(wanted)} tests", flush=True)
    jobs = os.environ.get("JOBS") or str(os.cpu_count() or 1)
    timed = ["timeout", "--kill-after=5", str(SECONDS), *command, "--test-threads", jobs, "--exact", *wanted]
    done = subprocess.run(timed, cwd=program.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return outcomes + of_output(program.name, wanted, done.stdout, limits)


def of_output(name: str, wanted: Sequence[str], text: str, limits: Sequence[Limit]) -> list[Outcome]:
    """Read what a file of tests printed."""
    results = {test: STATES[result] for test, result in RESULT.findall(text)}
    outcomes = []
    for test in wanted:
        full = f"{name}/{test}"
        state = results.get(test, "failed")
        said = panic(text, test) if test in results else f"it did not end: {(text.splitlines() or ['it said nothing'])[-1]}"[:140]
        outcomes.append(Outcome(full, state, said if state != "passed" else "", limit_of(full, limits)))
    return outcomes


def panic(text: str, test: str) -> str:
    """Give the first line of what a test said when it failed."""
    said = text.partition(f"---- {test} stdout ----\n")[2].partition("\n---- ")[0]
    after = re.split(r"panicked at [^\n]*\n", said, maxsplit=1)
    lines = [line.strip() for line in (after[1] if len(after) > 1 else said).splitlines() if line.strip()]
    return " ".join(lines[:3])[:140] if lines else "it does not run by itself"
