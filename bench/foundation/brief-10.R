# Fill a vector of 10 MB, change one element of a copy, and drop both, 400 times.
n <- 1310720L
changed <- function(x) {
  x[1L] <- 0
  x
}
total <- 0
for (i in 1:400) {
  x <- numeric(n) + i
  y <- changed(x)
  total <- total + x[1L] + sum(y[1:2])
}
cat(format(total, digits = 15), "\n")
