# x + y on vectors of 10 MB, 2000 times.
n <- 1310720L
set.seed(25)
x <- runif(n)
y <- rev(x)
for (i in 1:2000) z <- x + y
cat(z[1], z[n], sum(z), "\n")
