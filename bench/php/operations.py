"""What a callgrind profile says of a program's memory operations: instructions in them and below, and calls from elsewhere."""

import re

# PHP's own entrances, and what ends a request: in PHP itself, and in ours.
CALLS = {"malloc": re.compile(r"_emalloc(_\w+)?$|_ecalloc$"), "free": re.compile(r"_efree(_\w+)?$"), "realloc": re.compile(r"_erealloc2?$")}
ENDS = re.compile(r"shutdown_memory_manager$|pw_heap_free_all$|pw_region_free_all$")


def kind_of(name):
    """malloc, free, realloc, or end; None: it is no memory operation."""
    for kind, pattern in CALLS.items():
        if pattern.match(name):
            return kind
    return "end" if ENDS.match(name) else None


class _Names:
    """callgrind writes a name once, and its number from then on."""

    def __init__(self):
        self.known = {}

    def __call__(self, text):
        number, _, name = text.partition(" ")
        if name:
            self.known[number] = name.split("'")[0]
        return self.known.get(number, "")


def memory_operations(lines):
    """(instructions, {malloc, free, realloc: calls}). A memory operation below another one is counted once."""
    names, caller, callee, calls = _Names(), None, None, 0
    instructions, found = 0, dict.fromkeys(CALLS, 0)
    for line in lines:
        if line.startswith("fn="):
            caller = kind_of(names(line[3:].rstrip("\n")))
        elif line.startswith("cfn="):
            callee = kind_of(names(line[4:].rstrip("\n")))
        elif line.startswith("calls="):
            calls = int(line[6:].split()[0])
        elif calls:
            # The line behind `calls=`: where it is called, and what the calls cost altogether.
            if callee and not caller:
                instructions += int(line.split()[1]) if len(line.split()) > 1 else 0
                if callee in found:
                    found[callee] += calls
            calls = 0
    return instructions, found
