# Run R code in a fresh process and return the lines it writes. `before`: words put before the
# command, such as c("pagewise", "run", "--"). The attribute "status" is there when it failed.
fresh_r <- function(code, environment = character(), before = character()) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c(sprintf(".libPaths(%s)", deparse1(.libPaths())), code), file)
  words <- c(before, file.path(R.home("bin"), "Rscript"), "--vanilla", file)
  suppressWarnings(system2(words[[1]], shQuote(words[-1]), stdout = TRUE, stderr = TRUE,
    env = sub("=(.*)", "='\\1'", environment)))
}

statistic <- function(name) pagewise_status()$statistics[[name]]

# The `pagewise` command of the source tree.
pagewise_command <- function() {
  command <- Sys.getenv("PAGEWISE_COMMAND")
  if (nzchar(command) && file.exists(command)) command else skip("the pagewise command was not built")
}

skip_without_page_table <- function() {
  skip_if_not(vector_cost(numeric(1e5))$known, "the page table is hidden here")
}

local_pagewise <- function(..., frame = parent.frame()) {
  pagewise_on(...)
  do.call(on.exit, list(quote(pagewise_off()), add = TRUE), envir = frame)
}

# Plots go to a file that nobody looks at.
local_plots <- function(frame = parent.frame()) {
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  do.call(on.exit, list(bquote({
    grDevices::dev.off()
    unlink(.(file))
  }), add = TRUE), envir = frame)
}

# A cluster whose workers find the package where this process found it.
local_workers <- function(n = 1, frame = parent.frame()) {
  skip_if_not_installed("parallel")
  old <- Sys.getenv("R_LIBS", NA)
  Sys.setenv(R_LIBS = paste(.libPaths(), collapse = ":"))
  on.exit(if (is.na(old)) Sys.unsetenv("R_LIBS") else Sys.setenv(R_LIBS = old))
  cl <- parallel::makePSOCKcluster(n)
  stop_workers <- function() try(parallel::stopCluster(cl), silent = TRUE)
  do.call(base::on.exit, list(as.call(list(stop_workers)), add = TRUE), envir = frame)
  cl
}

# Serialised by handle, whatever for: that is right where it is read at once.
by_handle <- function(code) {
  old <- options(pagewise.handles = TRUE)
  on.exit(options(old))
  code
}

# Whether a process of this user may not be looked into: one that made itself undumpable, such as ssh-agent, or one
# of another container.
processes_are_hidden <- function() {
  # Threads of the kernel and zombies have no memory.
  user <- function(pid) {
    status <- suppressWarnings(tryCatch(readLines(file.path("/proc", pid, "status")), error = function(e) character()))
    if (!any(grepl("^VmSize:", status))) return(NULL)
    sub("^Uid:\t([0-9]+)\t.*", "\\1", grep("^Uid:", status, value = TRUE))
  }
  mine <- user("self")
  # Whose it is comes last: a process that ends meanwhile is nobody's, and hides nothing.
  hides <- function(pid) file.access(file.path("/proc", pid, "fd"), 4) != 0 && identical(user(pid), mine)
  any(vapply(grep("^[0-9]+$", list.files("/proc"), value = TRUE), hides, NA))
}
