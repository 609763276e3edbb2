# Linear regression over a 3000 x 3000 matrix by the normal equations (R benchmark 2.5, matrix calculation 5).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(order = 3000, repeats = 40),
  small = list(order = 3000, repeats = 12),
  tiny = list(order = 200, repeats = 2))
workload(character(), sizes, function(size) {
  for (i in seq_len(size$repeats)) {
    a <- matrix(rnorm(size$order^2) / 10, size$order)
    b <- as.double(seq_len(size$order))
    fit <- solve(crossprod(a), crossprod(a, b))
  }
  cat("coefficients", length(fit), digest(fit), "\n")
})
