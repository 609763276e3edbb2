# data.table's own test suite, as installed: some 9,000 tests, most of them in C. Its report is full of
# durations; the verdict and the number of tests are what is compared.
suppressMessages(library(data.table))
setDTthreads(2)
report <- capture.output(result <- test.data.table(silent = TRUE))
cat("all passed:", isTRUE(result), "\n")
cat(sub(" completed.*", "", grep("^All [0-9]+ tests", report, value = TRUE)), "\n")
