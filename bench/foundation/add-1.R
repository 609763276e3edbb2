# x + y on vectors of 1 MB, 20000 times.
n <- 131072L
set.seed(25)
x <- runif(n)
y <- rev(x)
for (i in 1:20000) z <- x + y
cat(z[1], z[n], sum(z), "\n")
