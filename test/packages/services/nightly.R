# A quarter of a gigabyte of numbers, a copy of it, and one change in the copy: plain R holds half a gigabyte.
x <- rep(1, 2^25)
y <- x
y[1] <- 2
stopifnot(sum(x) == 2^25, sum(y) == 2^25 + 1)
