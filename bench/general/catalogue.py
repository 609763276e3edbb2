"""What is measured: the patterns and the allocators."""

import os
from dataclasses import dataclass

from common import ROOT, digest

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
MIMALLOC = next((name for name in ("libmimalloc.so.2.0", "libmimalloc.so.3") if os.path.exists(f"{LIBRARIES}/{name}")), "libmimalloc.so.2.0")
GENERAL = os.path.join(ROOT, "build/lib/libpagewise-general.so")

PEERS = os.path.join(ROOT, "build/peers")


@dataclass(frozen=True)
class Allocator:
    """What is preloaded, and (name, value) of what else is in its environment."""

    preload: str = ""
    settings: tuple[tuple[str, str], ...] = ()


# Of the release of Debian that is there, at their default settings.
ALLOCATORS = {
    "glibc": Allocator(),
    "jemalloc": Allocator(f"{LIBRARIES}/libjemalloc.so.2"),
    "mimalloc": Allocator(f"{LIBRARIES}/{MIMALLOC}"),
    "general": Allocator(GENERAL),
    "tcmalloc": Allocator(f"{LIBRARIES}/libtcmalloc_minimal.so.4"),
    "glibc#2": Allocator(),
}
# At settings that are recommended for them (jemalloc: its TUNING.md), and a newer release. In the first rounds alone.
TUNED = {
    "glibc, 2 arenas": Allocator(settings=(("MALLOC_ARENA_MAX", "2"),)),
    "jemalloc, tuned": Allocator(f"{LIBRARIES}/libjemalloc.so.2", (("MALLOC_CONF", "background_thread:true,metadata_thp:auto"),)),
    "mimalloc 3": Allocator(f"{PEERS}/libmimalloc3.so"),
}
TUNED_ROUNDS = 2
BASE, CONTROL, TREATED = "glibc", "glibc#2", "general"
OTHERS = tuple(name for name in ALLOCATORS if name not in (CONTROL, TREATED))


@dataclass(frozen=True)
class Pattern:
    """A program's words (loops: of loops.c), what it stands for, and whether it waits ten seconds at the end."""

    words: tuple[str, ...]
    what: str
    settles: bool = False
    live_kb: int = 0  # what it holds at the end


PATTERNS = {
    "larson": Pattern(("loops", "larson", "4", "400000"), "four threads replace blocks, and hand them to successors"),
    "hand-over": Pattern(("loops", "hand-over", "2", "1000000"), "two threads allocate, two release (xmalloc)"),
    "scratch": Pattern(("loops", "scratch", "2", "300000"), "blocks that were another thread's are released, and new ones written"),
    "thrash": Pattern(("loops", "thrash", "2", "300000"), "two threads write small blocks"),
    "alloc-test": Pattern(("loops", "replace", "0", "3000000"), "replacements at random, one thread"),
    "threads": Pattern(("loops", "replace", "4", "500000"), "the same, four threads"),
    "sh6": Pattern(("loops", "runs", "0", "5000000"), "runs of equal sizes, released from both ends"),
    "sh8": Pattern(("loops", "mixed", "2", "1500000"), "runs of small and of larger sizes, two threads"),
    "pairs": Pattern(("loops", "pairs", "2", "400000"), "eight blocks at a time"),
    "phases": Pattern(("loops", "phases", "0", "12", "100000"), "one size after another; one block in sixteen lives on", True),
    "medium": Pattern(("loops", "medium", "0", "40000"), "33 KB to 1 MB, replaced at random"),
    "answers": Pattern(("loops", "answers", "0", "400000"), "60 to 140 KB, one at a time"),
    "growth": Pattern(("loops", "growth", "0", "1", "2000"), "2,000 buffers grow in turn to 128 KB"),
    "append": Pattern(("loops", "append", "0", "40"), "one buffer grows to 16 MB, forty times"),
    "holes": Pattern(("loops", "idle", "0", "0"), "240 MB released but for one block in 512, then nothing", True, 18_000 + 15_000),
    "lists": Pattern(("python", "growing_lists.py"), "Python: 12,000 lists grow in turn"),
    "json": Pattern(("python", "json_service.py"), "Python: two threads answer with 100 KB of JSON"),
    "redis": Pattern(("redis",), "redis: 200,000 writes and reads of 300 bytes", True),
}


def made_of(pattern: str) -> str:
    """A result is comparable as long as the programs are the same."""
    parts = [repr(PATTERNS[pattern].words).encode()] if pattern in PATTERNS else []
    for name in ("loops.c", "shim.c", "growing_lists.py", "json_service.py", "redis_server.py"):
        with open(os.path.join(HERE, name), "rb") as file:
            parts.append(file.read())
    return str(digest(*parts))
