"""The memory of this process over time."""

from __future__ import annotations

import dataclasses
import numbers
import os
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ._errors import PagewiseError
from ._text import size

if TYPE_CHECKING:
    import pandas

# In a process of its own: a thread of Python's would keep copies from sharing their pages.
_SAMPLER = """
import os, sys, time
parent, pause = int(sys.argv[1]), float(sys.argv[2])
while os.getppid() == parent:
    try:
        with open(f"/proc/{parent}/smaps_rollup") as file:
            pss = next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        break
    print(time.clock_gettime(time.CLOCK_MONOTONIC), pss, flush=True)
    time.sleep(pause)
"""


@dataclasses.dataclass
class Curve:
    """Physical memory of this process over time: a context manager that `curve` returns.

    Attributes
    ----------
    seconds : list of float
        Since the ``with`` block began.
    bytes : list of int
        Memory then: Pss, in which a page that others have as well counts in part.
    """

    interval: float
    seconds: list[float] = dataclasses.field(default_factory=list)
    bytes: list[int] = dataclasses.field(default_factory=list)
    _sampler: subprocess.Popen[str] | None = dataclasses.field(default=None, repr=False)
    _output: IO[str] | None = dataclasses.field(default=None, repr=False)
    _start: float = dataclasses.field(default=0.0, repr=False)

    def __enter__(self) -> Curve:
        """Begin to sample."""
        self._start = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._output = tempfile.TemporaryFile("w+", encoding="ascii")
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self._sampler = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _SAMPLER, str(os.getpid()), str(self.interval)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        # The first sample is there before anything is measured.
        while os.fstat(self._output.fileno()).st_size == 0 and self._sampler.poll() is None:
            time.sleep(0.002)
        if os.fstat(self._output.fileno()).st_size == 0:
            self._end()
            raise PagewiseError("this kernel, or this container, does not tell: /proc/PID/smaps_rollup cannot be read")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._end()

    def _end(self) -> None:
        if self._sampler is None or self._output is None:
            return
        self._sampler.terminate()
        self._sampler.wait()
        self._output.seek(0)
        samples = [line.split() for line in self._output.read().splitlines()]
        self._output.close()
        self._sampler = self._output = None
        samples = [words for words in samples if len(words) == 2]
        self.seconds = [float(moment) - self._start for moment, _ in samples]
        self.bytes = [int(kilobytes) * 1024 for _, kilobytes in samples]

    @property
    def peak(self) -> int:
        """The largest sample, in bytes. It is there once the ``with`` block has ended."""
        if not self.bytes:
            raise PagewiseError(
                "there are no samples yet, and so no peak. Type: with pagewise.curve() as memory: ..., and behind the "
                "block memory.peak"
            )
        return max(self.bytes)

    def to_frame(self) -> pandas.DataFrame:
        """Return the samples as a data frame: seconds, bytes."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame() needs pandas: pip install pandas. Without it: .seconds, .bytes") from None
        return pandas.DataFrame({"seconds": self.seconds, "bytes": self.bytes})

    def plot(self, axes: Any = None, **style: Any) -> Any:
        """Draw it with matplotlib; returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install matplotlib. Without it: .to_frame()") from None
        axes = axes if axes is not None else pyplot.subplots()[1]
        axes.plot(self.seconds, [count / 1e6 for count in self.bytes], **style)
        axes.set(xlabel="seconds", ylabel="memory (MB)", ylim=(0, None))
        return axes

    def __str__(self) -> str:
        """Return the text that ``print`` shows."""
        if not self.bytes:
            return "no samples: with pagewise.curve() as memory: ..."
        start, seconds = size(self.bytes[0]), self.seconds[-1]
        return f"{len(self.bytes)} samples in {seconds:.1f} s: {start} at first, {size(self.peak)} at most"


def curve(interval: float = 0.05) -> Curve:
    """Watch the memory of this process during a ``with`` block.

    A process of its own reads it, so that nothing of what is measured changes. Pages that only a snapshot holds (a
    published array that was written to since) are not in it: ``report().statistics["snapshot_bytes"]`` has them.

    Parameters
    ----------
    interval : float
        Seconds between two samples.

    Examples
    --------
    >>> import numpy as np, pagewise
    >>> with pagewise.curve() as memory:
    ...     x = np.ones(20_000_000)
    >>> memory.peak > x.nbytes // 2
    True
    """
    if not isinstance(interval, numbers.Real) or not interval > 0:
        raise ValueError(f"interval is a number of seconds above 0, not {interval!r}. Type: pagewise.curve(0.05)")
    return Curve(float(interval))
