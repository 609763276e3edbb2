# Fill a vector of 1.1 MB, change one element of a copy, and drop both, 6,000 times.
n <- 140000L
changed <- function(x) {
  x[1L] <- 0
  x
}
total <- 0
for (i in 1:6000) {
  x <- numeric(n) + i
  y <- changed(x)
  total <- total + x[1L] + sum(y[1:2])
}
cat(format(total, digits = 15), "\n")
