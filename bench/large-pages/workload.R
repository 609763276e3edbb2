# One workload of the large-page benchmark: Rscript workload.R NAME CONFIGURATION SCALE
#
# The last line is JSON: CPU and wall time in seconds and page faults, of the measured part alone.
# CONFIGURATION `ours` and `ism` switch on inside the session, before data is made; all others load
# nothing. SCALE divides sizes (1: the slides'), so that a trial is short.
words <- commandArgs(trailingOnly = TRUE)
name <- words[[1]]
configuration <- words[[2]]
scale <- as.numeric(words[[3]])
n <- function(size) max(16, round(size / scale))
times <- function(count) seq_len(max(2, round(count)))

if (configuration == "ours") {
  library(pagewise)
  pagewise_on()
} else if (configuration == "ism") {
  library(pagewise)
  ISM(TRUE)
}

hilbert <- function(N) 1 / (matrix(1:N, N, N, byrow = TRUE) + 0:(N - 1))
test_fft <- function(n) {
  x <- as.complex(1:n)
  all.equal(fft(fft(x), inverse = TRUE) / length(x), x)
}
grouped <- function(size) {
  set.seed(123)
  data.frame(key = sample.int(size / 100, size, replace = TRUE), a = runif(size), b = runif(size))
}

# name -> function that makes the data and returns the function to measure
workloads <- list(
  # the slides'
  "qr-hilbert-1000" = function() function() qr(hilbert(n(1000))),
  "qr-hilbert-1024" = function() function() qr(hilbert(n(2^10))),
  "fft-1e7" = function() function() test_fft(n(1e7)),
  "fft-2^24" = function() function() test_fft(2^round(log2(n(2^24)))),
  "lm-5000x10000" = function() {
    set.seed(123)
    rows <- n(5000)
    y <- matrix(rnorm(n(10000) * rows), rows)
    x <- matrix(runif(100 * rows), rows)
    function() lm(y ~ x)
  },
  # Since R 3.5 a sequence is no vector, and sort(1:1e8) does nothing; the sum makes it one.
  "sort-1e8" = function() function() sort(1:n(1e8) + 0L),
  # where pages matter today
  "add-1e7" = function() {
    x <- runif(n(1e7))
    y <- runif(n(1e7))
    function() for (i in times(60)) z <- x + y
  },
  "cumsum-1e7" = function() {
    x <- runif(n(1e7))
    function() for (i in times(40)) z <- cumsum(x)
  },
  "transpose-3000" = function() {
    side <- round(3000 / sqrt(scale))
    x <- matrix(runif(side^2), side)
    function() for (i in times(60)) y <- t(x)
  },
  "gather-2e7" = function() {
    set.seed(123)
    x <- runif(n(2e7))
    i <- sample.int(length(x))
    function() for (k in times(12)) y <- x[i]
  },
  "scatter-2e7" = function() {
    set.seed(123)
    x <- runif(n(2e7))
    i <- sample.int(length(x))
    value <- runif(length(x))
    here <- environment() # in place: a function of its own would change a copy of x
    function() eval(quote(for (k in times(12)) x[i] <- value), here)
  },
  "apply-rows" = function() {
    x <- matrix(runif(n(2e7)), ncol = 100)
    function() apply(x, 1, sum)
  },
  "unique-1e7" = function() {
    set.seed(123)
    x <- sample.int(n(1e7), replace = TRUE)
    function() unique(x)
  },
  "order-1e7" = function() {
    set.seed(123)
    x <- runif(n(1e7))
    function() order(x)
  },
  "data.table" = function() {
    library(data.table)
    setDTthreads(1)
    d <- as.data.table(grouped(n(1e7)))
    function() for (k in times(3)) d[, list(sum(a), mean(b)), by = key]
  },
  "dplyr" = function() {
    suppressPackageStartupMessages(library(dplyr))
    d <- grouped(n(5e6))
    function() summarise(group_by(d, key), a = sum(a), b = mean(b))
  },
  "sparse" = function() {
    library(Matrix)
    set.seed(123)
    side <- n(2e5)
    m <- rsparsematrix(side, side, nnz = side * 10)
    function() m %*% m
  }
)

if (!name %in% names(workloads)) {
  cat("workload.R: there are: ", paste(names(workloads), collapse = " "), "\n", file = stderr())
  quit(status = 2)
}

faults <- function() as.numeric(strsplit(sub(".*\\) ", "", readLines("/proc/self/stat")), " ")[[1]][c(8, 10)])
# Of the whole machine: the kernel counts these by process nowhere.
huge_faults <- function() {
  counters <- read.table("/proc/vmstat", row.names = 1)
  found <- counters["thp_fault_alloc", 1]
  if (is.na(found)) 0 else found
}
work <- workloads[[name]]()
invisible(gc())
before <- c(faults(), huge_faults())
spent <- system.time(value <- work(), gcFirst = FALSE)
counted <- c(faults(), huge_faults()) - before
if (configuration == "ism") { # as the slides show: segments live with their vectors
  print(ISM.list())
  rm(value, work)
  invisible(gc())
  print(ISM.list())
}
cat(sprintf(
  '{"cpu_seconds": %.3f, "system_seconds": %.3f, "wall_seconds": %.3f, "minor_faults": %.0f, "major_faults": %.0f, "huge_faults": %.0f}\n',
  spent[[1]] + spent[[2]], spent[[2]], spent[[3]], counted[[1]], counted[[2]], counted[[3]]
))
