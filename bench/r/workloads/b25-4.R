# Greatest common divisors of 400,000 pairs by recursion on whole vectors (R benchmark 2.5, programming 3).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(pairs = 400000, repeats = 400),
  small = list(pairs = 1200000, repeats = 45), # 400,000 pairs take less than R itself
  tiny = list(pairs = 5000, repeats = 2))
gcd <- function(a, b) {
  if (all(b < 1e-4)) return(a)
  b[b == 0] <- a[b == 0]
  Recall(b, a %% b)
}
workload(character(), sizes, function(size) {
  total <- 0
  for (i in seq_len(size$repeats)) {
    a <- ceiling(runif(size$pairs) * 1000)
    b <- ceiling(runif(size$pairs) * 1000)
    divisors <- gcd(a, b)
    total <- total + sum(divisors)
  }
  cat("total", format(total, digits = 15), digest(divisors), "\n")
})
