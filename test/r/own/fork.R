# parallel::mclapply: both sides write to shared vectors, and children collect garbage.
library(parallel)
set.seed(6)
n <- 2e6
x <- runif(n)
versions <- lapply(1:8, function(i) {
  y <- x
  y[i] <- -i
  y
})
child <- function(i) {
  y <- versions[[i]]
  y[seq(i, n, by = 5000)] <- i
  z <- y
  z[1:1000] <- 0
  rm(y)
  gc()
  x[i] <- 7
  zeros <- numeric(n)
  zeros[i] <- 1
  gc()
  c(sum(z), sum(versions[[i]]), sum(x), sum(zeros), sum(vapply(versions, `[`, 0, i)))
}
cat(format(unlist(mclapply(1:8, child, mc.cores = 4)), digits = 12), fill = 90)

# The parent writes, frees and collects while its children read.
jobs <- lapply(1:6, function(i) mcparallel({
  total <- 0
  for (k in 1:5) {
    copy <- versions[[k]]
    copy[k * 10] <- k
    total <- total + sum(copy) + sum(versions[[k]])
    gc()
  }
  total
}))
for (i in 1:8) {
  versions[[i]][1:1e5] <- i
  x[i] <- i
}
versions[[8]] <- NULL
invisible(gc())
again <- lapply(versions, function(v) {
  v[n] <- 0
  v
})
cat(format(unname(unlist(mccollect(jobs))), digits = 12), "\n")
cat(format(vapply(again, sum, 0), digits = 12), format(sum(x), digits = 12), "\n")

# Children of children.
nested <- mclapply(1:2, function(i) {
  unlist(mclapply(1:2, function(j) {
    v <- versions[[i]]
    v[j] <- 0
    sum(v)
  }, mc.cores = 2))
}, mc.cores = 2)
cat(format(unlist(nested), digits = 12), "\n")
