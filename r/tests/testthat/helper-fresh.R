# Run R code in a fresh process and return what it writes to standard output, as one string a line.
# `before`: words put before the command, such as c("pagewise", "run", "--").
fresh_r <- function(code, environment = character(), before = character()) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c(sprintf(".libPaths(%s)", deparse1(.libPaths())), code), file)
  words <- c(before, file.path(R.home("bin"), "Rscript"), "--vanilla", file)
  suppressWarnings(system2(words[[1]], shQuote(words[-1]), stdout = TRUE, stderr = FALSE,
    env = environment))
}
