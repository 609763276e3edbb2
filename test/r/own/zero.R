# Vectors of zeros, some written since, must read the same before and after every collection.
set.seed(5)
n <- 4e6
v <- lapply(1:8, function(i) numeric(n))
w <- lapply(1:8, function(i) matrix(0, 2000, 2000))
for (round in 1:6) {
  for (i in seq_along(v)) {
    at <- sample(n, 20)
    v[[i]][at] <- round
    w[[i]][at] <- -round
    w[[i]][sample(n, 1e5)] <- 0
  }
  invisible(gc())
  cat(round, vapply(v, sum, 0), vapply(w, sum, 0), sum(v[[1]] != 0), "\n")
}
v <- lapply(v, function(x) x * 0)
invisible(gc())
for (i in seq_along(v)) v[[i]][c(1, n)] <- i
cat(vapply(v, sum, 0), "\n")
b <- raw(5e7)
b[5e7] <- as.raw(255)
b2 <- b
b2[1] <- as.raw(1)
invisible(gc())
cat(sum(b != 0), sum(b2 != 0), "\n")
