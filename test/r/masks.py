"""What differs between two plain runs of the same R program, and so says nothing about Pagewise.

Each mask was added because two plain runs differed there. Nothing else is masked; a program that still differs
between two plain runs is reported as unstable and does not count as passed. Random numbers need no mask: each
program starts with set.seed(1).
"""

import re

# (pattern, replacement, reason)
MASKS = [
    (r"Rtmp[A-Za-z0-9]{6}", "Rtmp<X>", "name of R's temporary folder: random"),
    (r'"[A-Za-z]*[0-9a-f]{10,}(\.R)?" *', r'"<X>\1"', "tempfile(), in listings of folders: process id and random digits"),
    (r'(?m)" {2,}(?="|$)', '" ', "padding of printed strings: as wide as the longest tempfile(), whose length varies"),
    (r"\b(\w*file|filea|Rf|Rscript|Rinst|RLIBS_?)[0-9a-f]{8,}\b", r"\1<X>", "tempfile(), elsewhere"),
    (r"\b0x[0-9a-f]{5,}\b", "0x<X>", "addresses of environments, byte code and external pointers"),
    (r"@[0-9a-f]{6,}\b", "@<X>", "addresses printed by .Internal(inspect())"),
    (r"(?m)^ +\d{7} +\d+ +[01] +\d+ *$", "<Cstack_info>", "Cstack_info(): the kernel starts the stack at a random address"),
    (r"Time elapsed:.*", "Time elapsed: <T>", "proc.time() at the end of a test"),
    (r"(?m)^Time +[\d. ]+$", "Time <T>", "proc.time() in R's tests of distributions"),
    (r"(?m)^(last|total) +[\d. ]+$", r"\1 <T>", "rbind(last = ..., total = proc.time()) in R's tests"),
    (r"(?m)^Timing stopped at:.*", "Timing stopped at: <T>", "system.time() that an error has ended"),
    (r"(?m)^ +user +system +elapsed *\n.*", "<proc_time>", "printed proc.time() and system.time()"),
    (r"(?m)^system\.time:\n(user\.self *\n)?.*\n", "", "in d-p-q-r-tst-2.R, only where a call was slow"),
    (r"(?m)^ *user\.self *\n.*", "<user.self>", "one element of system.time(), printed"),
    (r"(?m)(^> st\(.*\)|typically around \d+--\d+(?:\n .*)*)\n\[1\] .*", r"\1\n<T>", "system.time() in R's tests PCRE.R and reg-tests-1c.R"),
    (r"(it\[i \(= nco = \d+\)\]= )-?\d+", r"\1<N>", "fisher.test() in reg-tests-1e.R tells a number that it has not set"),
    (r"\d+\.\d+s elapsed \(\d+\.\d+s cpu\)", "<T>", "data.table::timetaken()"),
    (r"\btook \d+\.\d+s?", "took <T>", "data.table's verbose messages"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "<time>", "Sys.time() and the times of files"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d \d{4}",
     "<date>", "date()"),
]
# In plots, which are compared by the hash of what is left.
PLOT_MASK = re.compile(rb"/(CreationDate|ModDate) \(D:\d+\)")  # when it was made
COMPILED = [(re.compile(pattern), replacement) for pattern, replacement, _ in MASKS]


def masked(text, folder):
    """`text` without what differs from run to run; `folder` is where the program ran."""
    text = text.replace(folder, "<HERE>")
    for pattern, replacement in COMPILED:
        text = pattern.sub(replacement, text)
    return text
