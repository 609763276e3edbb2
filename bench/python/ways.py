"""Five ways to hand an array to the workers of a pool: what a program writes for each, and nothing more.

A way makes of an array what is sent (`make`), and of what arrived an array (`look`, in the worker, and in the owner). `pool`
has workers, and a function that has all of them work at once, each on one tuple of arguments, until all are done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

# Each way imports what it needs when it is used: idle workers have nothing else, and who only asks for names has nothing.
if TYPE_CHECKING:
    import numpy as np

Send = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


class Plain:
    """The array is sent as it is: every worker has a copy."""

    # What is written for it, as the page says it.
    words = "`pool.starmap(work, [(x,)] * 8)`"

    def make(self, array: np.ndarray) -> Any:
        """What is sent. The owner keeps it, and the array only where it is this."""
        return array

    def look(self, sent: Any) -> np.ndarray:
        """The array of what was sent."""
        return sent

    def done(self, sent: Any) -> None:
        """The owner needs it no more."""

    @contextlib.contextmanager
    def pool(self, workers: int) -> Iterator[Send]:
        """The workers."""
        with self.context().Pool(workers) as pool:
            yield lambda function, given: pool.starmap(function, given, chunksize=1)

    def context(self) -> Any:
        """Workers are new interpreters: a forked one has the owner's memory in any case."""
        import multiprocessing

        return multiprocessing.get_context("spawn")


class Pagewise(Plain):
    """`pagewise.share()`."""

    words = "`x = pagewise.share(x)`"

    def __init__(self) -> None:
        import pagewise

        self.share = pagewise.share

    def make(self, array: np.ndarray) -> Any:
        return self.share(array)


class SharedMemory(Plain):
    """The standard library's: a block that workers open by its name."""

    words = "`SharedMemory(create=True, size=x.nbytes)`, and an array in it"

    def make(self, array: np.ndarray) -> Any:
        from multiprocessing.shared_memory import SharedMemory

        self.block = SharedMemory(create=True, size=array.nbytes)
        self.array = type(array)(array.shape, array.dtype, self.block.buf)
        self.array[:] = array
        return self.block.name, array.shape, array.dtype.str

    def look(self, sent: Any) -> np.ndarray:
        from multiprocessing.shared_memory import SharedMemory

        import numpy as np

        name, shape, dtype = sent
        if not hasattr(self, "block"):
            self.block = SharedMemory(name)
            self.array = np.ndarray(shape, dtype, self.block.buf)
        return self.array

    def done(self, sent: Any) -> None:
        self.block.unlink()


class Joblib(Plain):
    """What `Parallel` does with a large array by itself: a file that workers map. Its default (`mmap_mode="r"`) refuses writes."""

    words = '`Parallel(n_jobs=8, mmap_mode="c")`'

    @contextlib.contextmanager
    def pool(self, workers: int) -> Iterator[Send]:
        from joblib import Parallel, delayed

        yield lambda function, given: Parallel(n_jobs=workers, batch_size=1, mmap_mode="c")(delayed(function)(*one) for one in given)


class Torch(Plain):
    """torch's tensors and its pool."""

    words = "`torch.from_numpy(x).share_memory_()`, and `torch.multiprocessing`"

    def __init__(self) -> None:
        import torch

        self.from_numpy = torch.from_numpy

    def make(self, array: np.ndarray) -> Any:
        return self.from_numpy(array).share_memory_()

    def look(self, sent: Any) -> np.ndarray:
        return sent.numpy()

    def context(self) -> Any:
        import torch.multiprocessing

        return torch.multiprocessing.get_context("spawn")


# Plain pickling is measured twice, to see the noise.
WAYS: dict[str, type[Plain]] = {"plain": Plain, "plain#2": Plain, "pagewise": Pagewise, "SharedMemory": SharedMemory, "joblib": Joblib, "torch": Torch}
