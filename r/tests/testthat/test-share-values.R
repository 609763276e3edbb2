# A shared object is the value it was made from, whoever reads it and whatever is done with it; where that cannot
# be, there is an error.

own_library <- function() dirname(getNamespaceInfo("pagewise", "path"))

# Lines for fresh_r() that do not find the package by themselves.
without_package <- "R_LIBS="

# A fresh R that has the package's library only by .libPaths(), which its workers do not see.
private_library <- function(code) {
  fresh_r(c("options(warn = -1)", "library(pagewise)", code), environment = without_package)
}

# A fresh R that cannot load the package at all.
stranger <- function(code) {
  fresh_r(c(".libPaths(character()); stopifnot(!requireNamespace('pagewise', quietly = TRUE))", code),
    environment = without_package)
}

every_type <- function(n = 2000L) {
  set.seed(11)
  list(
    logical = rep(c(TRUE, NA), n), integer = c(sample(n), NA), double = c(runif(n), NA, NaN, -0),
    complex = complex(n, 1:n, NA), raw = as.raw(rep(0:255, 20)), character = c(paste0("s", seq_len(n)), NA, "\u00e9"),
    factor = factor(sample(letters, n, TRUE)), names = setNames(runif(n), paste0("n", seq_len(n)))
  )
}

test_that("a worker that cannot load the package gets the value", {
  out <- private_library(c(
    "d <- share(data.frame(a = runif(1e5), b = as.character(1:1e5), c = 1:1e5))", "v <- share(runif(1e5))",
    "cl <- parallel::makePSOCKcluster(1)",
    "missing <- parallel::clusterCall(cl, function() !requireNamespace('pagewise', quietly = TRUE))[[1]]",
    "got <- parallel::clusterCall(cl, function(d, v) list(d, v, sum(v)), d, v)[[1]]",
    "parallel::clusterExport(cl, 'v'); exported <- parallel::clusterEvalQ(cl, c(sum(v), length(v)))[[1]]",
    "parallel::stopCluster(cl)",
    "cat('same:', missing, identical(got, list(d, v, sum(v))), identical(exported, c(sum(v), 1e5)))"
  ))
  expect_match(out, "same: TRUE TRUE TRUE", all = FALSE)
})

test_that("who says by which option gets handles, and a worker without the package then fails", {
  out <- private_library(c(
    "options(pagewise.handles = TRUE)", "v <- share(runif(1e5))", "cl <- parallel::makePSOCKcluster(1)",
    "got <- tryCatch(parallel::clusterCall(cl, function(v) c(sum(v), length(v)), v)[[1]], error = function(e) 'error')",
    "cat('got:', got)"
  ))
  expect_match(out, "got: error", all = FALSE)
})

test_that("a handle that no package explains is an error, never an empty vector", {
  file <- tempfile()
  for (name in names(every_type())) {
    x <- share(every_type()[[name]])
    by_handle(saveRDS(x, file))
    expect_lt(file.size(file), 6000)
    out <- stranger(sprintf("x <- tryCatch(readRDS('%s'), error = conditionMessage); cat('got:', length(x), x[1])", file))
    expect_match(out, "got: 1 cannot unserialize this ALTREP object", all = FALSE, info = name)
    expect_identical(readRDS(file), x, info = name)
    expect_no_warning(readRDS(file))
  }
  x <- share(data.frame(a = runif(1e4), b = "same"))
  by_handle(saveRDS(x, file))
  out <- stranger(sprintf("x <- try(readRDS('%s'), TRUE); cat('got:', class(x), exists('y'))", file))
  expect_match(out, "got: try-error", all = FALSE)
})

test_that("files hold the data, and are read when everybody else is gone", {
  folder <- tempfile("files")
  dir.create(folder)
  code <- c(
    "library(pagewise)", sprintf("setwd('%s'); set.seed(1)", folder),
    "x <- share(data.frame(a = runif(1e4), b = as.character(1:1e4), c = factor(rep(letters[1:20], 500))))",
    "y <- x; y$a[1] <- 0; attr(y$a, 'unit') <- 'm'", "names <- share(setNames(runif(1e4), 1:1e4))",
    "saveRDS(x, 'x.rds'); saveRDS(x, 'x2.rds', version = 2); saveRDS(x, 'plain.rds', compress = FALSE)",
    "con <- gzfile('con.rds', 'wb'); saveRDS(x, con); close(con)", "con <- file('con2.rds', 'wb'); serialize(x, con); close(con)",
    "save(x, y, names, file = 'all.rda'); save.image('image.rda'); dump('x', 'x.R')",
    "writeBin(serialize(x, NULL), 'memory.rds'); saveRDS(y, 'y.rds'); saveRDS(list2env(list(x = x), parent = emptyenv()), 'environment.rds')"
  )
  fresh_r(code)
  set.seed(1)
  x <- data.frame(a = runif(1e4), b = as.character(1:1e4), c = factor(rep(letters[1:20], 500)))
  names <- setNames(runif(1e4), 1:1e4)
  at <- function(name) file.path(folder, name)
  for (file in c("x.rds", "x2.rds", "plain.rds", "con.rds")) expect_identical(readRDS(at(file)), x, info = file)
  con <- file(at("con2.rds"), "rb")
  expect_identical(unserialize(con), x)
  close(con)
  expect_identical(unserialize(readBin(at("memory.rds"), "raw", 1e7)), x)
  for (file in c("all.rda", "image.rda")) {
    loaded <- new.env()
    load(at(file), loaded)
    expect_identical(loaded$x, x, info = file)
    expect_identical(loaded$names, names, info = file)
    expect_identical(attr(loaded$y$a, "unit"), "m", info = file)
  }
  expect_identical(readRDS(at("environment.rds"))$x, x)
  expect_equal(readRDS(at("y.rds"))$a[1:2], c(0, x$a[[2]]), ignore_attr = TRUE)
  out <- stranger(sprintf("x <- readRDS('%s'); cat('got:', sum(x$a) == %.17g, nrow(x))", at("x.rds"), sum(x$a)))
  expect_match(out, "got: TRUE 10000", all = FALSE)
})

test_that("what is serialised in memory is what the plain object gives", {
  for (name in names(every_type())) {
    plain <- every_type()[[name]]
    x <- share(plain)
    for (version in 2:3) {
      expect_identical(serialize(x, NULL, version = version), serialize(plain, NULL, version = version), info = name)
      expect_identical(serialize(x, NULL, xdr = FALSE, version = version), serialize(plain, NULL, xdr = FALSE, version = version))
      expect_identical(serialize(x, NULL, ascii = TRUE, version = version), serialize(plain, NULL, ascii = TRUE, version = version))
    }
    received <- by_handle(unserialize(serialize(x, NULL)))
    expect_identical(nrow(shared_info(received)) > 0, TRUE)
    expect_identical(serialize(received, NULL), serialize(plain, NULL), info = name)
  }
})

test_that("hashes are those of the plain object, here and in workers", {
  skip_if_not_installed("rlang")
  skip_if_not_installed("digest")
  plain <- every_type()
  d <- data.frame(a = plain$double[1:2000], b = plain$character[1:2000], c = plain$factor)
  shared <- lapply(plain, share)
  all_hashes <- function(x) {
    c(rlang::hash(x), digest::digest(x), digest::digest(x, "sha1", serializeVersion = 3L), digest::digest(x, "spookyhash"),
      digest::digest(serialize(x, NULL), serialize = FALSE))
  }
  for (name in names(plain)) expect_identical(all_hashes(shared[[name]]), all_hashes(plain[[name]]), info = name)
  sd <- share(d)
  expect_identical(all_hashes(sd), all_hashes(d))
  expect_identical(rlang::hash(list(sd, 1)), rlang::hash(list(d, 1)))
  cl <- local_workers(2)
  found <- parallel::clusterCall(cl, function(x) list(rlang::hash(x), nrow(pagewise::shared_info(x))), sd)
  for (worker in found) expect_identical(worker, list(rlang::hash(d), 3L))
  found <- parallel::parLapply(cl, list(sd, sd), rlang::hash) # called by code of parallel's itself
  expect_identical(found, list(rlang::hash(d), rlang::hash(d)))
  changed <- sd
  changed$a[3] <- 7
  expect_false(rlang::hash(changed) == rlang::hash(sd))
  changed$a[3] <- d$a[3]
  back <- d # R itself puts attributes into another order at such a change
  back$a[3] <- 7
  back$a[3] <- d$a[3]
  expect_identical(rlang::hash(changed), rlang::hash(back))
  skip_if_not_installed("memoise")
  calls <- 0
  slow <- memoise::memoise(function(v) {
    calls <<- calls + 1
    sum(v)
  })
  for (i in 1:3) expect_identical(slow(share(plain$integer)), sum(plain$integer))
  slow(plain$integer)
  expect_identical(calls, 1)
})

test_that("text that is not marked keeps its bytes, its mark and its hash", {
  code <- c(
    "library(pagewise)", "text <- vapply(list(c(0x63, 0xc3, 0xa9), c(0x63, 0xe9)), function(b) rawToChar(as.raw(b)), '')",
    "x <- rep(c(text, 'plain', NA, enc2utf8('\\u00fc')), 1000)", "y <- share(x)",
    "cat('same:', identical(Encoding(y), Encoding(x)), identical(serialize(y, NULL), serialize(x, NULL)))"
  )
  for (locale in c("C", "C.UTF-8")) {
    expect_match(fresh_r(code, environment = paste0("LC_ALL=", locale)), "same: TRUE TRUE", all = FALSE, info = locale)
  }
})

test_that("workers get handles where they read them at once, and values elsewhere", {
  cl <- local_workers(1)
  x <- share(list(a = runif(1e5), b = as.character(1:1e4)))
  expect_identical(parallel::clusterCall(cl, function(x) nrow(pagewise::shared_info(x)), x)[[1]], 2L)
  parallel::clusterExport(cl, "x", envir = environment())
  expect_identical(parallel::clusterEvalQ(cl, nrow(pagewise::shared_info(x)))[[1]], 2L)
  f <- function() nrow(pagewise::shared_info(x)) # in a closure's environment
  expect_identical(parallel::clusterCall(cl, f)[[1]], 2L)
  back <- parallel::clusterEvalQ(cl, x)[[1]]
  expect_identical(shared_info(back)$object, shared_info(x)$object)
  back <- parallel::mclapply(1:2, function(i) x, mc.cores = 2)[[1]]
  expect_identical(shared_info(back)$object, shared_info(x)$object)
  # What a worker is told to do with it is no sending, even where code of parallel's calls it.
  file <- tempfile()
  parallel::clusterCall(cl, saveRDS, x, file)
  expect_gt(file.size(file), 1e5)
  expect_identical(parallel::parLapply(cl, list(x), serialize, NULL)[[1]], serialize(x, NULL))
  expect_identical(parallel::mclapply(list(x, x), serialize, NULL, mc.cores = 2)[[1]], serialize(x, NULL))
  expect_identical(parallel::pvec(x$a, function(v) serialize(v, NULL), mc.cores = 1), serialize(x$a + 0, NULL))
})

test_that("a cluster of forked workers gives the right values", {
  x <- share(data.frame(a = runif(1e5), b = as.character(1:1e5)))
  expected <- list(sum(x$a), x$b[1:3])
  ask <- function(x) list(sum(x$a), x$b[1:3])
  cl <- parallel::makeForkCluster(1)
  expect_identical(parallel::clusterCall(cl, ask, x)[[1]], expected)
  expect_identical(parallel::clusterCall(cl, function(x) share(x$a + 1), x)[[1]], x$a + 1)
  parallel::stopCluster(cl)
})

test_that("other ways to workers give the right values", {
  x <- share(data.frame(a = runif(1e5), b = as.character(1:1e5)))
  expected <- list(sum(x$a), x$b[1:3])
  ask <- function(x) list(sum(x$a), x$b[1:3])
  if (requireNamespace("future", quietly = TRUE)) {
    old <- Sys.getenv("R_LIBS", NA)
    Sys.setenv(R_LIBS = paste(.libPaths(), collapse = ":"))
    on.exit(if (is.na(old)) Sys.unsetenv("R_LIBS") else Sys.setenv(R_LIBS = old))
    for (plan in c("multisession", "multicore", "sequential")) {
      before <- suppressWarnings(future::plan(plan, workers = 2)) # sequential has no workers
      expect_identical(future::value(future::future(ask(x), globals = list(ask = ask, x = x))), expected, info = plan)
      expect_identical(future::value(future::future(pagewise::share(x$a + 1), globals = list(x = x))), x$a + 1, info = plan)
      future::plan(before)
    }
  }
  if (requireNamespace("snow", quietly = TRUE)) {
    cl <- snow::makeSOCKcluster("localhost")
    expect_identical(snow::clusterCall(cl, ask, x)[[1]], expected)
    snow::stopCluster(cl)
  }
  if (requireNamespace("callr", quietly = TRUE)) {
    expect_identical(callr::r(ask, list(x), libpath = .libPaths()), expected)
    expect_identical(callr::r(function(x) pagewise::share(x$a + 1), list(x), libpath = .libPaths()), x$a + 1)
  }
})

test_that("a knitr cache holds the values", {
  skip_if_not_installed("knitr")
  folder <- tempfile("knit")
  dir.create(folder)
  writeLines(c(
    "```{r, include=FALSE}", "knitr::opts_chunk$set(cache = TRUE, cache.path = 'cache/')", "library(pagewise); set.seed(1)", "```",
    "```{r make}", "x <- share(data.frame(a = runif(1e4), b = as.character(1:1e4)))", "cat('made\\n', file = 'made', append = TRUE)",
    "```", "```{r use, cache=FALSE}", "cat('sum:', sprintf('%.10f', sum(x$a)), nrow(x), x$b[10000])", "```"
  ), file.path(folder, "doc.Rmd"))
  code <- sprintf("setwd('%s'); knitr::knit('doc.Rmd', quiet = TRUE); cat(grep('sum: [0-9]', readLines('doc.md'), value = TRUE))", folder)
  first <- fresh_r(code, environment = paste0("R_LIBS=", own_library()))
  second <- fresh_r(code, environment = paste0("R_LIBS=", own_library()))
  expect_match(first, "sum: [0-9.]+ 10000 10000", all = FALSE)
  expect_identical(second, first)
  expect_length(readLines(file.path(folder, "made")), 1)
})

test_that("data.table changes its columns in place, and nobody else's", {
  skip_if_not_installed("data.table")
  library(data.table, warn.conflicts = FALSE, quietly = TRUE)
  on.exit(detach("package:data.table"))
  set.seed(2)
  plain <- data.frame(a = runif(5000), b = sample(c(letters, NA), 5000, TRUE), c = sample(5000L),
    d = factor(sample(LETTERS, 5000, TRUE)))
  original <- share(plain)
  change <- function(x) {
    data.table::setDT(x)
    data.table::set(x, 1:10, "a", 0)
    x[c > 10L, a := -1]
    x[is.na(b), b := "none"]
    x[, e := a * 2]
    x[3L, d := "A"]
    data.table::setorder(x, c)
    data.table::setkey(x, b, c)
    data.table::setattr(x$a, "unit", "m")
    data.table::setnames(x, "a", "z")
    x[.("none"), sum(z), by = d]
    x <- x[x[, .(m = mean(z)), by = b], on = "b"]
    x[, d := NULL]
    x[]
  }
  environment(change) <- new.env(parent = globalenv()) # data.table asks where it is called from
  expected <- as.data.frame(change(data.table::copy(plain)))
  view <- by_handle(unserialize(serialize(original, NULL)))
  expect_identical(as.data.frame(change(view)), expected)
  expect_identical(as.list(original), as.list(plain))
  expect_identical(as.list(by_handle(unserialize(serialize(original, NULL)))), as.list(plain))
  cl <- local_workers(2)
  found <- parallel::clusterCall(cl, function(x) {
    data.table::setDT(x)
    data.table::set(x, j = "a", value = 0)
    data.table::set(x, 1L, "c", Sys.getpid())
    c(sum(x$a), x$c[1] - Sys.getpid())
  }, original)
  expect_identical(found, list(c(0, 0), c(0, 0)))
  expect_identical(as.list(original), as.list(plain))
  table <- data.table::as.data.table(plain)
  shared <- share(table)
  data.table::set(shared, 1L, "a", 9)
  expect_identical(table$a, plain$a)
  expect_identical(shared$a, c(9, plain$a[-1]))
  expect_identical(data.table::fread(text = capture.output(data.table::fwrite(original)))$c, plain$c)
})

test_that("sorting and its metadata, attributes and names are those of plain vectors", {
  set.seed(3)
  for (plain in list(sample(5000L), runif(5000), c(NA, 1:5000), as.character(sample(5000)), rep(c(TRUE, FALSE, NA), 2000))) {
    x <- share(plain)
    y <- sort(x)
    expect_identical(y, sort(plain))
    y <- sort(y, decreasing = TRUE)
    expect_identical(y, sort(plain, decreasing = TRUE))
    z <- share(sort(plain))
    z[1:2] <- rev(z)[1:2] # no longer sorted
    w <- sort(plain)
    w[1:2] <- rev(w)[1:2]
    expect_identical(sort(z), sort(w))
    expect_identical(order(x), order(plain))
    expect_identical(sort(x, method = "radix"), sort(plain, method = "radix"))
    expect_identical(is.unsorted(x), is.unsorted(plain))
    expect_identical(anyNA(z), anyNA(w))
    expect_identical(rank(x), rank(plain))
    expect_identical(unique(rev(x)), unique(rev(plain)))
    z <- x
    attr(z, "unit") <- "m"
    w <- plain
    attr(w, "unit") <- "m"
    expect_identical(z, w)
    expect_identical(by_handle(unserialize(serialize(z, NULL))), w)
    names(z) <- seq_along(z)
    names(w) <- seq_along(w)
    z[2] <- z[3]
    w[2] <- w[3]
    expect_identical(z, w)
    expect_identical(x, plain)
    dim(z) <- c(1, length(z))
    dim(w) <- c(1, length(w))
    expect_identical(z, w)
    length(x) <- 10
    expect_identical(x, plain[1:10])
  }
})

# --- what it costs -------------------------------------------------------------------------------

# One truth: bytes of this process's own are the same in the three, and what is not its own lies in the object.
expect_one_truth <- function(x) {
  assign("pw_truth", x, globalenv())
  on.exit(rm("pw_truth", envir = globalenv()))
  cost <- vector_cost(x)
  info <- shared_info(x)
  found <- memory_report(1000)$vectors
  row <- found[found$name == "pw_truth", ]
  expect_identical(cost$own + cost$shared - cost$published + cost$swapped, sum(info$written))
  expect_identical(cost$bytes, sum(info$bytes)) # of a vector; a list has pointers as well
  expect_identical(cost$absent, 0)
  expect_identical(c(row$own, row$shared, row$absent, row$bytes), c(cost$own, cost$shared, cost$absent, cost$bytes))
  expect_gte(memory_report()$objects, sum(info$bytes))
  list(own = cost$own, published = cost$published, written = sum(info$written))
}

test_that("vector_cost, shared_info and memory_report tell the same", {
  skip_without_page_table()
  gc()
  before <- memory_report()$objects
  x <- share(runif(1e6))
  size <- 8003584 # whole pages
  expect_lte(memory_report()$objects, before + size + 3 * 4096)
  expect_identical(expect_one_truth(x), list(own = 0, published = size, written = 0))
  sum(x) # the kernel maps its pages here, and here alone
  expect_identical(expect_one_truth(x), list(own = 0, published = size, written = 0))
  y <- x
  y[1] <- 0
  expect_identical(expect_one_truth(y), list(own = 4096, published = size - 4096, written = 4096))
  y[2] <- y[2] # a write all the same
  y[5e5] <- 1
  sum(y)
  expect_identical(expect_one_truth(y), list(own = 8192, published = size - 8192, written = 8192))
  expect_identical(expect_one_truth(x)$own, 0)
  y[] <- 1
  expect_gte(expect_one_truth(y)$own, 8e6)
  cl <- local_workers(1)
  worker <- parallel::clusterCall(cl, function(x) {
    sum(x)
    x[1] <- 0
    c(pagewise::vector_cost(x)$own, pagewise::shared_info(x)$written)
  }, x)[[1]]
  expect_identical(worker, c(4096, 4096))
})

test_that("what R makes of shared strings counts as this process's own", {
  skip_without_page_table()
  x <- share(paste0("s", 1:1e5))
  expect_identical(expect_one_truth(x)$own, 0)
  x[[7]] # makes a table for the strings
  expect_one_truth(x)
  y <- x
  y[1] <- "other"
  found <- expect_one_truth(y)
  expect_gte(found$own, 8e5)
  expect_gte(found$published, 1e5 * 4)
})

test_that("a shared vector that R wraps for its attributes is seen as shared", {
  skip_without_page_table()
  x <- share(runif(1e6))
  y <- x
  attr(y, "unit") <- "m"
  expect_identical(nrow(shared_info(y)), 1L)
  expect_identical(shared_info(y)$object, shared_info(x)$object)
  expect_identical(expect_one_truth(y)$own, 0)
  names <- share(as.character(1:1e5))
  wrapped <- names
  attr(wrapped, "unit") <- "m"
  expect_identical(shared_info(wrapped)$object, shared_info(names)$object)
  expect_identical(nrow(shared_info(share(y))), 1L)
  expect_identical(by_handle(unserialize(serialize(y, NULL))), y)
  y[1] <- 2
  expect_identical(expect_one_truth(y)$own, 4096)
  expect_true(shared_info(y)$changed)
  expect_false(shared_info(x)$changed)
})

test_that("a forked child and its parent count alike", {
  skip_without_page_table()
  x <- share(runif(1e6))
  x[1:1000] <- 0
  in_child <- parallel::mclapply(1:2, function(i) {
    x[2000] <- 0
    cost <- vector_cost(x)
    c(cost$own + cost$shared - cost$published, sum(shared_info(x)$written))
  }, mc.cores = 2)[[1]]
  expect_identical(in_child[[1]], in_child[[2]])
  for (i in 1:600) { # until the children have ended, pages that were written before the fork are shared
    if (vector_cost(x)$own > 0) break
    Sys.sleep(0.05)
  }
  expect_identical(expect_one_truth(x)$own, 8192)
})

# --- what could crash ------------------------------------------------------------------------------

test_that("shared vectors outlive the package's namespace, and its library", {
  reads <- "cat('same:', identical(x, plain), sum(y) == sum(plain) - plain[1] + 5, identical(s[c(1, 5000)], c('1', '5000')), '\\n')"
  code <- c(
    "library(pagewise)", "set.seed(1); plain <- runif(1e5); x <- share(plain); y <- x; y[1] <- 5; s <- share(as.character(1:5000))",
    "lost <- share(runif(1e5)); unloadNamespace('pagewise'); rm(lost); invisible(gc())", reads,
    "stopifnot(identical(unserialize(serialize(x, NULL)), plain))", "y <- x; y[1] <- 5; invisible(gc())", reads,
    "library(pagewise); invisible(gc())", reads, "stopifnot(nrow(shared_info(x)) == 1, identical(share(plain), plain))",
    "bytes <- { options(pagewise.handles = TRUE); serialize(x, NULL) }", "stopifnot(length(bytes) < 300, identical(unserialize(bytes), plain))",
    "path <- getNamespaceInfo('pagewise', 'path'); lost <- share(runif(1e5))", "unloadNamespace('pagewise'); library.dynam.unload('pagewise', path)",
    "rm(lost); invisible(gc()); got <- try(sum(x), TRUE); cat('unloaded:', inherits(got, 'try-error') || got == sum(plain), '\\n')",
    "got <- try(length(x), TRUE); stopifnot(inherits(got, 'try-error') || got == 1e5)",
    "library(pagewise); invisible(gc())", reads, "stopifnot(identical(share(plain), plain), identical(unserialize(bytes), plain))", "cat('done\\n')"
  )
  out <- fresh_r(code)
  expect_length(grep("same: TRUE TRUE TRUE", out), 4)
  expect_match(out, "unloaded: TRUE", all = FALSE)
  expect_identical(utils::tail(out, 1), "done")
})

test_that("nothing is lost while the collector runs at every allocation", {
  out <- fresh_r(c(
    "library(pagewise)", "plain <- list(a = runif(1000), b = as.character(1:600), c = setNames(1:2000, 1:2000), d = list(runif(600)))",
    "options(pagewise.handles = TRUE)", "gctorture2(7)", "x <- share(plain)", "y <- unserialize(serialize(x, NULL))",
    "y$a[1] <- 0; y$b[1] <- 'z'; attr(y$c, 'k') <- 1; z <- y$b[1:3]; info <- shared_info(y)$written; cost <- vector_cost(y)$own",
    "gctorture2(0)", "stopifnot(identical(x, plain), identical(y$a[-1], plain$a[-1]), identical(z, c('z', '2', '3')))", "cat('done\\n')"
  ))
  expect_identical(utils::tail(out, 1), "done")
})

test_that("limits that come later are errors or plain copies, and harm nothing", {
  skip_if_not(nzchar(Sys.which("prlimit")), "no prlimit")
  limit <- function(what) sprintf("system2('prlimit', c('--pid', Sys.getpid(), '%s'))", what)
  code <- c(
    "library(pagewise)", "set.seed(1); plain <- runif(5e6); x <- share(plain); options(pagewise.handles = TRUE); bytes <- serialize(x, NULL)",
    "fresh <- function() tryCatch(identical(unserialize(bytes), plain), error = function(e) grepl('descriptor|memory|allocate', conditionMessage(e)))"
  )
  check <- "y <- tryCatch({ y <- x; y[1] <- 0; identical(y[-1], plain[-1]) }, error = function(e) grepl('allocate', conditionMessage(e))); cat('ok:', identical(x[1:1000], plain[1:1000]), fresh(), y, identical(sum(x), sum(plain)), '\\n')"
  for (what in c("--nofile=5", "--fsize=0", "--as=300000000", "--data=100000000", "--memlock=0")) {
    out <- fresh_r(c(code, limit(what), check))
    expect_match(out, "ok: TRUE TRUE TRUE TRUE", all = FALSE, info = what)
  }
  # A worker without descriptors to spare.
  file <- tempfile()
  out <- fresh_r(c("library(pagewise)", "options(pagewise.handles = TRUE)", "x <- share(runif(1e5))",
    sprintf("saveRDS(list(x, Sys.getpid()), '%s')", file),
    sprintf("r <- system2(file.path(R.home('bin'), 'Rscript'), c('-e', shQuote(\"x <- try(readRDS('%s')[[1]], TRUE); cat('got:', length(x), class(x))\")), stdout = TRUE, env = 'R_LIBS=')", file),
    "cat(r, sep = '\\n')"))
  expect_match(out, "got: 1 try-error", all = FALSE)
})
