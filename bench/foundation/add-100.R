# x + y on vectors of 100 MB, 120 times: enough for the loop, not R's start, to decide.
n <- 13107200L
set.seed(25)
x <- runif(n)
y <- rev(x)
for (i in 1:120) z <- x + y
cat(z[1], z[n], sum(z), "\n")
