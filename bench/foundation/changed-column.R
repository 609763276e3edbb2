# Change one value in a column (2 MB) of a copy of a data frame and read all of it, 2,000 times.
n <- 262144L
set.seed(25)
d <- data.frame(a = runif(n), b = runif(n))
total <- 0
for (i in 1:2000) {
  e <- d
  e$a[3L] <- i
  e$b <- e$a + e$b
  total <- total + e$b[3L]
}
cat(format(total, digits = 15), "\n")
