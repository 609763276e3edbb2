# Linear regression over a 3000 x 3000 matrix by the normal equations (R benchmark 2.5, matrix calculation 5),
# twice.
set.seed(25)
a <- matrix(rnorm(3000 * 3000), 3000)
b <- as.double(1:3000)
for (i in 1:2) fit <- solve(crossprod(a), crossprod(a, b))
cat(format(sum(abs(fit)) > 0), length(fit), format(max(abs(a %*% fit - b)) < 1), "\n")
