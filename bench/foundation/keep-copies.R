# Keep 25 of 100 copies of a 100 MB vector, each of which has one element written.
n <- 13107200L
x <- rep_len(c(0.5, 1.5, 2.5), n)
kept <- list()
for (i in 1:100) {
  y <- x
  y[i * 1000L] <- -1
  if (i %% 4L == 0L) kept[[length(kept) + 1L]] <- y
}
written <- 1:100 * 1000L
sample <- seq(1L, n, 50000L)
cat(length(kept), vapply(kept, function(y) which(y[written] < 0), 0L), sum(vapply(kept, function(y) sum(y[sample]), 0)), "\n")
