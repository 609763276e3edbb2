# One run of pagewise_compare(): carries out the task in the folder that is named.
local({
  folder <- commandArgs(trailingOnly = TRUE)[[1]]
  way <- if (grepl("libpagewise", Sys.getenv("LD_PRELOAD"), fixed = TRUE)) "pagewise" else "plain"
  leave <- function(error) {
    call <- conditionCall(error)
    call <- if (is.null(call)) "" else paste(deparse(call, width.cutoff = 60L)[[1]], "")
    file <- file.path(folder, sprintf("error-%s.rds", way))
    if (!file.exists(file)) saveRDS(list(message = conditionMessage(error), call = trimws(call)), file)
    quit(save = "no", status = 1L)
  }
  tryCatch({
    task <- readRDS(file.path(folder, "task.rds"))
    .libPaths(task$libraries)
    for (package in task$packages) {
      suppressPackageStartupMessages(library(package, character.only = TRUE))
    }
    surroundings <- list(session = globalenv(), own = new.env(parent = globalenv()))
    for (place in names(task$values)) {
      for (name in names(task$values[[place]])) {
        value <- task$values[[place]][[name]]
        if (inherits(value, "pagewise_file")) {
          file <- file.path(folder, sprintf("%s-%d.rds", place, value[[1]]))
          eval(call("<-", as.name(name), call("readRDS", file)), surroundings[[place]])
          next
        }
        if (is.function(value) && !is.null(attr(value, "pagewise_own"))) {
          environment(value) <- surroundings$own
          attr(value, "pagewise_own") <- NULL
        }
        assign(name, value, surroundings[[place]])
      }
    }
    if (!is.null(task$seed)) {
      do.call(RNGkind, as.list(task$kind))
      set.seed(task$seed)
    }
    value <- eval(task$expression, surroundings[[if (task$at_top) "session" else "own"]])
    if (task$check) {
      # Version 2 has data alone, and not how they lie in memory.
      digest <- pipe("md5sum", "wb")
      serialize(value, digest, xdr = FALSE, version = 2L)
      close(digest)
    }
  }, error = leave)
})
