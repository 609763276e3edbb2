"""Runs a command to its end, and the signals that may interrupt a benchmark meanwhile."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common import ROOT, environment


class Interrupted(Exception):
    """A signal asked the harness to end."""


class RunFailed(Exception):
    """The command did not end well; what it said is the message."""


class TimedOut(Exception):
    """The run took longer than allowed and was ended."""


class Signals:
    """Turns SIGINT, SIGTERM and SIGHUP into a request that is honoured once the run has put everything back.

    Ctrl-C reaches pagewise and R by itself; a signal sent to the harness alone is passed on to pagewise.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs mean it
                signal.signal(number, self._arrived)

    def _arrived(self, number: int, _frame: object) -> None:
        self.asked = number
        if self.child and self.child.poll() is None:
            # SIGTERM also for Ctrl-C: R on its own may take SIGINT for an error in the script and go on.
            self.child.send_signal(signal.SIGTERM)

    def check(self) -> None:
        if self.asked:
            raise Interrupted(signal.Signals(self.asked).name)


def call(words: Sequence[str], signals: Signals, out: Any, errors: Any, timeout: float | None = None, cwd: str = ROOT,
         env: Mapping[str, str] | None = None, preexec_fn: Callable[[], object] | None = None) -> int:
    """Runs to the end, whatever signals arrive; returns the exit status. Raises TimedOut when it had to be ended."""
    signals.check()
    process = subprocess.Popen(words, cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                               preexec_fn=preexec_fn)
    signals.child = process
    if signals.asked:  # it came between the check and the start
        process.terminate()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired as late:
        process.terminate()
        process.wait()
        signals.check()
        raise TimedOut from late
    finally:
        signals.child = None
    signals.check()
    return status
