# Inverse of a 1600 x 1600 random matrix (R benchmark 2.5, matrix functions 5).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(order = 1600, repeats = 140),
  small = list(order = 2200, repeats = 14), # one of order 1600 takes less than three times R itself
  tiny = list(order = 150, repeats = 2))
workload(character(), sizes, function(size) {
  for (i in seq_len(size$repeats)) inverse <- solve(matrix(rnorm(size$order^2), size$order))
  cat("inverse", digest(inverse), "\n")
})
