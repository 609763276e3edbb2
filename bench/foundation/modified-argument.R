# A function modifies its 50 MB argument and returns it, 300 times; R copies the argument each time.
n <- 6553600L
set.seed(25)
x <- runif(n)
mark <- function(v, i) {
  v[i] <- 2
  v[n - i + 1L] <- 2
  v
}
total <- 0
for (i in 1:300) {
  y <- mark(x, i * 7L)
  total <- total + y[i * 7L] + y[1L]
}
cat(total, x[7], x[n], "\n")
