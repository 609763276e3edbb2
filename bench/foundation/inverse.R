# Inverse of a random 1600 x 1600 matrix (R benchmark 2.5, matrix functions 4), four times.
set.seed(25)
total <- 0
for (i in 1:4) {
  a <- matrix(rnorm(1600 * 1600), 1600)
  b <- solve(a)
  total <- total + sum(diag(a %*% b[, 1:50])[1:50])
}
cat(format(total, digits = 10), "\n")
