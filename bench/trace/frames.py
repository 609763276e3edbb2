"""Allocates within pandas: frames that are joined, grouped and sorted: frames.py ROUNDS."""

import sys

import numpy
import pandas

random = numpy.random.default_rng(1)
total = 0.0
for number in range(int(sys.argv[1])):
    visits = pandas.DataFrame({"name": random.integers(0, 500, 5000), "seconds": random.random(5000)})
    names = pandas.DataFrame({"name": numpy.arange(500), "text": [f"visitor {i}" for i in range(500)]})
    joined = visits.merge(names, on="name").sort_values("seconds")
    total += float(joined.groupby("text")["seconds"].mean().max())
print(total)
