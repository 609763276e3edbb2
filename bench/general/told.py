"""The last line of a program that is measured: seconds, CPU seconds, KB at the peak, mappings, KB in memory now."""

import resource
import time

STARTED = time.monotonic()


def tell() -> None:
    """Prints it."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        mappings = sum(1 for _ in file)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # getrusage tells the peak of whoever started this program, where that was more.
    with open("/proc/self/status", encoding="ascii") as file:
        told = {line.split(":")[0]: line.split()[1] for line in file if line.startswith("Vm")}
    print(f"{time.monotonic() - STARTED:.4f} {used.ru_utime + used.ru_stime:.4f} {told['VmHWM']} {mappings} {told['VmRSS']}")
