# Workers that share their parent's memory, write to a part of it, and have some of their own.
data <- matrix(rnorm(3e7), ncol = 30)
fit <- function(column) {
  mine <- data[, column] * 2 # theirs alone
  best <- Inf
  for (step in 1:15) {
    residuals <- sort(mine[1:3e5] + step)
    best <- min(best, sum(abs(residuals)))
    gc() # writes marks to the parent's pages
  }
  c(best, sum(mine))
}
results <- parallel::mclapply(1:12, fit, mc.cores = 4, mc.preschedule = FALSE)
cat(format(sum(unlist(results)), digits = 3) != "", "\n")
