# x + y on vectors of 100 MB, 60 times.
n <- 13107200L
set.seed(25)
x <- runif(n)
y <- rev(x)
for (i in 1:60) z <- x + y
cat(z[1], z[n], sum(z), "\n")
