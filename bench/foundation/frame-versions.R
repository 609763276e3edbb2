# A data frame of 50 numeric columns (200 MB). Each of 10 steps changes a few rows of every column, and
# all versions are kept.
rows <- 524288L
columns <- 50L
d <- as.data.frame(lapply(seq_len(columns), function(j) seq_len(rows) * (j / 7)))
names(d) <- sprintf("v%02d", seq_len(columns))
versions <- list(d)
for (step in 1:10) {
  changed <- step * 4096L + 1:20
  for (column in names(d)) d[[column]][changed] <- step
  versions[[step + 1L]] <- d
}
checked <- c(seq(1L, rows, 32768L), 1:10 * 4096L + 1L)
sums <- vapply(versions, function(v) sum(vapply(v, function(x) sum(x[checked]), 0)), 0)
cat(length(versions), format(sums, digits = 12), "\n")
