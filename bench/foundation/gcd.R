# Greatest common divisors of 400,000 random pairs, by recursion on whole vectors (R benchmark 2.5,
# programming 3), ten times over.
set.seed(25)
gcd <- function(a, b) {
  if (all(b < 1e-4)) return(a)
  b[b == 0] <- a[b == 0]
  Recall(b, a %% b)
}
total <- 0
for (i in 1:10) {
  a <- ceiling(runif(400000) * 1000)
  b <- ceiling(runif(400000) * 1000)
  total <- total + sum(gcd(a, b))
}
cat(total, "\n")
