# CPU time of everyday operations on a shared vector and on an ordinary one: speed.R ELEMENTS
# Writes "OPERATION<tab>PLAIN<tab>SHARED" lines, in seconds; each the least of nine, in turns.
suppressPackageStartupMessages(library(pagewise))
n <- as.numeric(commandArgs(trailingOnly = TRUE)[[1]])
set.seed(1)
plain <- runif(n)
shared <- share(plain)
everywhere <- sample(n)
somewhere <- sample(n, n / 5)

operations <- list(
  "sum(x)" = function(x) sum(x), "x + 1" = function(x) x + 1, "x * x" = function(x) x * x, "exp(x)" = function(x) exp(x),
  "x > 0.5" = function(x) x > 0.5, "x[x > 0.5]" = function(x) x[x > 0.5], "x[i], all in random order" = function(x) x[everywhere],
  "x[i] <- 0, a fifth in random order" = function(x) {
    x[somewhere] <- 0
    x
  },
  "cumsum(x)" = function(x) cumsum(x), "var(x)" = function(x) stats::var(x), "order(x)" = function(x) order(x),
  "sort(x)" = function(x) sort(x),
  "for: read elements" = function(x) {
    total <- 0
    for (i in seq_len(n / 5)) total <- total + x[i]
    total
  },
  "for: write elements" = function(x) {
    for (i in seq_len(n / 5)) x[i] <- 0
    x
  }
)
cpu <- function(operation, x) sum(system.time(operation(x), gcFirst = FALSE)[1:2])
for (name in names(operations)) {
  operation <- compiler::cmpfun(operations[[name]])
  times <- replicate(9, c(cpu(operation, plain), cpu(operation, shared)))
  least <- apply(times[, -1], 1, min)
  cat(name, sprintf("%.4f", least), sep = "\t")
  cat("\n")
}
