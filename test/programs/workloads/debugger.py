# SPDX-License-Identifier: MIT
# Runs in gdb's own Python.
import hashlib
import os
import re

import gdb


def show(command):
    text = gdb.execute(command, to_string=True).replace(os.getcwd(), "FOLDER")
    print(command, hashlib.sha256(re.sub(r"0x[0-9a-f]+", "ADDRESS", text).encode()).hexdigest()[:16], text.count("\n"))


def walk(value):
    names = []
    while value:
        names.append(value["name"].string())
        value = value["next"]
    return names


class Counter(gdb.Breakpoint):
    met = 0

    def stop(self):
        Counter.met += 1
        return False


show("info line main")
show("info functions ^pthread_c")
show("info types node")
show("disassemble /s sum_of")
show("ptype struct node")
counter = Counter("add_node")
gdb.Breakpoint("work_off")
gdb.execute("run", to_string=True)
print("met", Counter.met, walk(gdb.parse_and_eval("first"))[::7])
gdb.execute("set scheduler-locking on")
for expression in ("sum_of(first)", "(long)malloc(100) != 0", "*(char *)memset(malloc(500000), 7, 500000)", "add_node(first, 99)->name"):
    try:
        print("called", gdb.parse_and_eval(expression))
    except gdb.error as problem:
        # gdb 13 cannot call functions on kernels whose extended state of the processor is larger than it knows.
        print("not called", problem)
gdb.execute("set scheduler-locking off")
gdb.execute("delete")
gdb.execute("continue", to_string=True)
print("exit", gdb.parse_and_eval("$_exitcode"))
text = [str(n) * 50 for n in range(60000)]
print("python", hashlib.sha256("".join(sorted(text)).encode()).hexdigest())
