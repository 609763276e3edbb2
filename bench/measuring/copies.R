# A table of 240 MB, of which versions are kept that differ in a column each: copies that share pages.
table <- as.data.frame(matrix(runif(3e7), ncol = 30))
versions <- list()
for (column in 1:25) {
  changed <- as.matrix(table)
  changed[, column] <- sqrt(changed[, column])
  versions[[column]] <- changed
  table[[1]][column] <- column
  if (column %% 5 == 0) versions[seq_len(column - 3)] <- list(NULL)
  invisible(sum(changed[, column]))
}
cat(length(versions), "\n")
