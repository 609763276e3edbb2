# Keep 25 of 100 copies of a 100 MB vector, each of which has one element written.
n <- 13107200L
x <- rep_len(c(0.5, 1.5, 2.5), n)
kept <- list()
for (i in 1:100) {
  y <- x
  y[i * 1000L] <- -1
  if (i %% 4L == 0L) kept[[length(kept) + 1L]] <- y
}
cat(length(kept), sum(vapply(kept, function(y) sum(y[seq(1L, n, 1000L)]), 0)), which(kept[[7]][1:100000] < 0), "\n")
