# One round: hand a data frame of 20 columns to 4 PSOCK workers, have each read all of it and
# overwrite a column of its own. round.R MEGABYTES plain|shared
#
# Speaks with the harness over standard input and output: "NAME VALUE" lines are figures; at "wait
# NAME PIDS" all is quiet, and the harness looks at these processes before it answers.
suppressPackageStartupMessages(library(pagewise))
words <- commandArgs(trailingOnly = TRUE)
rows <- as.numeric(words[[1]]) * 1e6 / 20 / 8
shared <- words[[2]] == "shared"
workers <- 4

input <- file("stdin", "r")
say <- function(...) {
  cat(..., "\n")
  flush(stdout())
}
cl <- parallel::makePSOCKcluster(workers)
pids <- c(Sys.getpid(), unlist(parallel::clusterCall(cl, Sys.getpid)))
wait <- function(name) {
  invisible(gc())
  say("wait", name, pids)
  invisible(readLines(input, 1))
}
seconds <- function(name, expression) say(name, system.time(expression, gcFirst = FALSE)[["elapsed"]])

# The same five processes, idle; the package is loaded in all of them.
invisible(parallel::clusterCall(cl, function() {
  loadNamespace("pagewise")
  gc()
  NULL
}))
wait("idle")

set.seed(1)
columns <- lapply(seq_len(20), function(i) runif(rows))
names(columns) <- paste0("c", seq_len(20))
d <- structure(columns, class = "data.frame", row.names = .set_row_names(rows))
rm(columns)
expected <- sum(vapply(d, sum, 0))
wait("made")

seconds("share", if (shared) d <- share(d))
invisible(gc())
options(pagewise.handles = if (shared) TRUE)
say("bytes", if (shared) length(serialize(d, NULL)) else 8 * rows * 20)
options(pagewise.handles = NULL)
seconds("hand", parallel::clusterCall(cl, function(d) {
  assign("d", d, globalenv())
  NULL
}, d))
seconds("read", sums <- parallel::clusterCall(cl, function() sum(vapply(d, sum, 0))))
stopifnot(all(abs(unlist(sums) - expected) < 1e-6 * expected))
wait("read")

seconds("overwrite", sums <- parallel::clusterApply(cl, seq_len(workers), function(i) {
  column <- paste0("c", i)
  d[[column]][] <<- i
  c(sum(d[[column]]), sum(vapply(d, sum, 0)))
}))
stopifnot(identical(vapply(sums, `[[`, 0, 1), seq_len(workers) * rows))
stopifnot(abs(sum(vapply(d, sum, 0)) - expected) < 1e-6 * expected) # nobody else sees the writes
wait("overwritten")
parallel::stopCluster(cl)
