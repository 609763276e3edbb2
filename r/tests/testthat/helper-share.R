# What the tests of shared objects have in common.

# An R process that shares `what`, writes its handle to `file`, and waits to be killed.
sharer <- function(file, what = "runif(1e5)") {
  script <- tempfile(fileext = ".R")
  writeLines(c(
    sprintf(".libPaths(%s)", deparse1(.libPaths())), "library(pagewise); options(pagewise.handles = TRUE)", "set.seed(1)",
    sprintf("x <- share(%s)", what),
    sprintf("saveRDS(list(x, Sys.getpid()), '%s.part'); invisible(file.rename('%s.part', '%s'))", file, file, file),
    "Sys.sleep(300)"
  ), script)
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), wait = FALSE)
  for (i in 1:600) {
    if (file.exists(file)) break
    Sys.sleep(0.1)
  }
  readRDS(file)
}

kill_and_wait <- function(pid) {
  tools::pskill(pid, tools::SIGKILL)
  for (i in 1:600) {
    state <- tryCatch(suppressWarnings(readLines(sprintf("/proc/%d/stat", pid))), error = function(e) "gone Z")
    if (grepl("gone|\\) Z", state)) break
    Sys.sleep(0.05)
  }
}

objects_open <- function(pid = "self") {
  links <- Sys.readlink(list.files(sprintf("/proc/%s/fd", pid), full.names = TRUE))
  sum(grepl("^/memfd:pagewise-shared-", links))
}

# The library of a file of these tests, NAME.c.
compiled <- function(name) {
  skip_if_not(all(nzchar(Sys.which(c("cc", "make")))), "no compiler")
  folder <- tempfile(name)
  dir.create(folder)
  source <- paste0(name, ".c")
  file.copy(test_path(source), folder)
  library <- file.path(folder, paste0(name, ".so"))
  system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", library, file.path(folder, source)),
    stdout = FALSE, stderr = FALSE)
  expect_true(file.exists(library))
  library
}

in_memory <- function(x, ...) by_handle(serialize(x, NULL, ...))
sent <- function(x) unserialize(in_memory(x))
wire <- function(x) length(in_memory(x))
