# x <- f(x): a chain of modified versions of a 50 MB vector. The caller's version lives until f returns.
n <- 6553600L
x <- rep_len(c(0.5, 1.5, 2.5), n)
step <- function(v, i) {
  v[i * 1000L] <- v[i * 1000L] + 0.5
  v
}
for (i in 1:300) {
  old <- x
  x <- step(x, i)
}
touched <- seq(1000L, 300000L, 1000L)
cat(sum(x[touched]), sum(old[touched] != x[touched]), "\n")
