# A function modifies its 50 MB argument and returns it, 300 times; R copies the argument each time.
n <- 6553600L
x <- rep_len(c(0.5, 1.5, 2.5), n)
mark <- function(v, i) {
  v[i] <- 9
  v[n - i + 1L] <- 9
  v
}
total <- 0
for (i in 1:300) {
  y <- mark(x, i * 7L)
  total <- total + y[i * 7L] + y[1L]
}
cat(total, x[7], x[n], "\n")
