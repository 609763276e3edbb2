local_command <- function(frame = parent.frame()) {
  skip_if_not_installed("jsonlite")
  old <- options(pagewise.command = pagewise_command())
  do.call(on.exit, list(bquote(options(.(old))), add = TRUE), envir = frame)
}

test_that("an expression that keeps copies takes less under Pagewise, and its result is like the others", {
  local_command()
  x <- runif(4e6)
  result <- pagewise_compare({
    kept <- lapply(1:8, function(i) {
      x[i] <- 0
      x
    })
    Sys.sleep(0.1)
    sum(kept[[3]])
  }, runs = 2, quiet = TRUE)
  expect_s3_class(result, "pagewise_comparison")
  expect_true(result$same)
  expect_true(result$preloaded)
  expect_false(result$interrupted)
  expect_identical(result$rounds, 2L)
  figures <- summary(result)
  expect_identical(figures$figure, c("peak", "average", "cpu", "wall"))
  expect_gt(figures$plain[[1]], 8 * 32e6)
  expect_lt(figures$ratio[[1]], 0.6)
  expect_true(all(is.na(figures$low))) # of two pairs
  expect_gt(result$statistics[["copies_shared"]], 0)

  frame <- as.data.frame(result)
  expect_identical(frame$configuration, rep(c("plain", "auto"), each = 2))
  expect_s3_class(frame$peak, "pagewise_bytes")
  expect_identical(row.names(as.data.frame(result, row.names = letters[1:4])), letters[1:4])
  text <- paste(capture.output(print(result)), collapse = "\n")
  expect_match(text, "<pagewise_comparison> \\{.*peak memory +[0-9]+ MB.*2 runs plain and under Pagewise each")
  expect_match(text, "fewer than 5 pairs")
  expect_false(grepl("DIFFERS|not at work", text))
  local_plots()
  expect_invisible(plot(result))
  skip_if_not_installed("knitr")
  expect_match(knitr::knit_print(result), "2 runs plain.*\\|peak memory +\\|")
})

test_that("values, functions, packages and random numbers are carried over; this session is not changed", {
  local_command()
  scale <- 3
  helper <- function(v) scale * inner(v)
  inner <- function(v) v + 1
  counter <- local({
    n <- 10
    list(up = function() n <<- n + 1, get = function() n)
  })
  up <- counter$up
  now <- counter$get
  table <- data.frame(a = 1:3)
  shared <- share(as.numeric(1:10000))
  result <- tempfile()
  set.seed(7)
  before <- .Random.seed
  own <- tempfile(pattern = "own", fileext = ".rds")
  here <- pagewise_compare({
    table$a[2] <- 10L
    up()
    local <- runif(3)
    found <- list(helper(2), table$a, now(), sum(shared), local, search(), getwd(), exists("before"))
    saveRDS(found, own)
  }, runs = 1, quiet = TRUE)
  expect_true(here$same)
  found <- readRDS(own)
  unlink(own)
  expect_identical(found[[1]], 9)
  expect_identical(found[[2]], c(1L, 10L, 3L))
  expect_identical(found[[3]], 11)
  expect_identical(found[[4]], sum(1:10000 + 0))
  set.seed(1)
  expect_identical(found[[5]], runif(3))
  ours <- grep("^package:", search(), value = TRUE)
  expect_identical(grep("^package:", found[[6]], value = TRUE), ours)
  expect_identical(found[[7]], getwd())
  expect_false(found[[8]]) # not used, not carried
  expect_identical(table$a, 1:3)
  expect_identical(counter$get(), 10)
})

test_that("a variable of the session and one of the same name of a function are told apart", {
  local_command()
  said <- fresh_r(c(
    "library(pagewise)", sprintf("options(pagewise.command = %s)", deparse1(getOption("pagewise.command"))),
    "x <- 1; g <- function() x; maker <- function() { x <- 40; function() x + g() }; h <- maker()",
    "f <- function() { x <- 200; k <- function() x * 10; pagewise_compare(stopifnot(g() == 1, x == 200, k() == 2000, h() == 41), runs = 1) }",
    "invisible(f())", "invisible(pagewise_compare({ x <- x + 1; stopifnot(x == 2, g() == 2) }, runs = 1))",
    "attach(list(zz = 5)); invisible(pagewise_compare(stopifnot(zz == 5), runs = 1)); cat('all well', x)"
  ))
  expect_identical(said[length(said)], "all well 1")
})

test_that("what is carried over is not copied at its first write", {
  local_command()
  x <- runif(1e6)
  own <- tempfile(fileext = ".rds")
  on.exit(unlink(own))
  pagewise_compare({
    before <- tracemem(x)
    x[1] <- 0
    saveRDS(identical(before, tracemem(x)), own)
  }, runs = 1, quiet = TRUE)
  expect_true(readRDS(own))
})

test_that("a name that the expression assigns is carried over where it is read first", {
  first <- function(code, name) pagewise:::first_use(substitute(code), name)
  expect_identical(first(x <- x + 1, "x"), "read")
  expect_identical(first({ x <- 1; x }, "x"), "written")
  expect_identical(first(x[2] <- 1, "x"), "read")
  expect_identical(first(names(x)[2] <- "a", "x"), "read")
  expect_identical(first(for (x in 1:3) x, "x"), "written")
  expect_identical(first(for (i in x) x <- i, "x"), "read")
  expect_null(first(d$x, "x"))
  expect_null(first(y ~ x, "x"))
  expect_null(first(m[, 1], "x"))
  expect_identical(first(m[x, ], "x"), "read")
  expect_identical(first(function(i) { x[i] <- 0; x }, "x"), "read")
  expect_null(first(function(i) { x <- 0; x }, "x"))
  expect_null(first(function(x) x, "x"))
  expect_identical(first({ function(x) x; x }, "x"), "read")
  expect_identical(first(function(a = x) a, "x"), "read")
  expect_identical(first({ if (a) x <- 1; x }, "x"), "read")
  expect_identical(first({ if (a) x <- 1 else x <- 2; x }, "x"), "written")
  expect_identical(first({ for (i in 1:3) x <- 1; x }, "x"), "read")
  expect_identical(first({ while (f(x)) 1 }, "x"), "read")
  expect_identical(first(x(1), "x"), "read")
})

test_that("functions take along what they use", {
  outer <- 1
  `top<-` <- function(x, value) { x[outer] <- value; x }
  twice <- function(v) if (v > 0) twice(v - 1) else other()
  other <- function() { top(unused) <- 2; unused }
  unused <- 1:3
  missing_one <- 4
  used <- pagewise:::values_used(quote({ twice(2); y <- missing_one; missing_one <- 2 }), environment())
  expect_setequal(names(used$own), c("twice", "other", "top<-", "outer", "unused", "missing_one"))
  expect_identical(used$own$unused, 1:3)
  expect_length(used$session, 0)
})

test_that("errors of the expression are errors here, with its message", {
  local_command()
  f <- function(n) stop("no such ", n)
  expect_error(pagewise_compare(f("thing"), runs = 1, quiet = TRUE), "the expression failed, in f.*: no such thing",
    class = "pagewise_expression_error")
  expect_error(pagewise_compare(undefined_name + 1, runs = 1, quiet = TRUE), "object 'undefined_name' not found",
    class = "pagewise_expression_error")
  expect_error(pagewise_compare(if (nzchar(Sys.getenv("LD_PRELOAD"))) stop("only there"), runs = 1, quiet = TRUE),
    "under Pagewise alone: only there|under Pagewise alone, in .*: only there", class = "pagewise_expression_error")
  expect_error(pagewise_compare(quit(status = 3), runs = 1, quiet = TRUE), "R ended with exit status 3, without Pagewise",
    class = "pagewise_expression_error")
  expect_error(pagewise_compare(tools::pskill(Sys.getpid(), 9), runs = 1, quiet = TRUE), "by signal 9",
    class = "pagewise_expression_error")
})

test_that("other values or output are said", {
  local_command()
  differs <- pagewise_compare(Sys.getpid(), runs = 1, quiet = TRUE)
  expect_false(differs$same)
  expect_match(paste(format(differs), collapse = "\n"), "OUTPUT DIFFERS")
  expect_true(pagewise_compare(Sys.getpid(), runs = 1, quiet = TRUE, check = FALSE)$same)
  expect_false(pagewise_compare(print(Sys.getpid()), runs = 1, quiet = TRUE, check = FALSE)$same)
  expect_true(pagewise_compare(runif(5), runs = 1, quiet = TRUE)$same)
  expect_false(pagewise_compare(runif(5), runs = 1, quiet = TRUE, seed = NULL)$same)
})

test_that("what means nothing in another process is refused by name", {
  local_command()
  con <- file(tempfile(), "w")
  on.exit(close(con))
  refused <- function(code, pattern) {
    expect_error(eval(substitute(pagewise_compare(code, runs = 1, quiet = TRUE)), parent.frame()), pattern,
      class = "pagewise_argument_error")
  }
  refused(cat("a", file = con), "`con` is a connection.*inside the expression")
  deep <- list(1, inside = list(con))
  refused(length(deep), "`deep\\$inside\\[\\[1\\]\\]` is a connection")
  pointer <- getLoadedDLLs()[["pagewise"]][["handle"]]
  holder <- new.env()
  holder$p <- list(pointer)
  refused(ls(holder), "holder.*is a pointer into this process")
  maker <- local({
    hidden <- pointer
    function() is.null(hidden)
  })
  refused(maker(), "hidden.* is a pointer into this process")
  # data.table makes its own anew.
  like <- structure(list(a = 1:3), .internal.selfref = pointer, class = "data.frame", row.names = 1:3)
  expect_true(pagewise_compare(sum(like$a), runs = 1, quiet = TRUE)$same)
  loop <- new.env(parent = globalenv())
  loop$self <- loop
  expect_null(pagewise:::find_local(loop, "loop"))
})

test_that("wrong arguments, and what is not installed, are said", {
  old <- options(pagewise.command = tempfile())
  on.exit(options(old))
  expect_error(pagewise_compare(1), "names no program that can be run", class = "pagewise_unavailable")
  options(pagewise.command = NULL)
  path <- Sys.getenv(c("PATH", "HOME"))
  on.exit(do.call(Sys.setenv, as.list(path)), add = TRUE)
  Sys.setenv(PATH = "/nonexistent", HOME = "/nonexistent")
  expect_error(pagewise_compare(1), "make install PREFIX=", class = "pagewise_unavailable")
  do.call(Sys.setenv, as.list(path))
  expect_error(pagewise:::need_packages(c("stats", "no.such.package"), "this"), "this needs the package no.such.package",
    class = "pagewise_unavailable")
  expect_error(pagewise_compare(1, runs = 0), "`runs` must be", class = "pagewise_argument_error")
  expect_error(pagewise_compare(1, runs = 1.5), "`runs` must be", class = "pagewise_argument_error")
  expect_error(pagewise_compare(1, policy = "best"), "no policy", class = "pagewise_argument_error")
  expect_error(pagewise_compare(1, no_such = 1), "no option", class = "pagewise_argument_error")
  expect_error(pagewise_compare(1, seed = "a"), "`seed` must be", class = "pagewise_argument_error")
  expect_error(pagewise_compare(1, check = NA), "`check` must be", class = "pagewise_argument_error")
  local_command()
  expect_error(pagewise_compare(1, threshold = "much", runs = 1, quiet = TRUE), "exit status 125.*threshold",
    class = "pagewise_unavailable")
})

test_that("the addin compares what is selected, or the document, after asking", {
  local_command()
  folder <- tempfile("library")
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  source <- file.path(folder, "src", "rstudioapi")
  dir.create(file.path(source, "R"), recursive = TRUE)
  writeLines(c("Package: rstudioapi", "Version: 99.0.1", "Title: Stand-In", "Description: None.", "License: MIT",
    "Author: A", "Maintainer: A <a@b.c>"), file.path(source, "DESCRIPTION"))
  writeLines("export(getSourceEditorContext, showQuestion)", file.path(source, "NAMESPACE"))
  writeLines(c(
    "getSourceEditorContext <- function() getOption('stand.in')",
    "showQuestion <- function(title, message, ok, cancel) { cat(message, '\\n'); getOption('stand.in.answer', TRUE) }"
  ), file.path(source, "R", "api.R"))
  system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", "-l", shQuote(folder), shQuote(source)),
    stdout = FALSE, stderr = FALSE)
  skip_if_not(dir.exists(file.path(folder, "rstudioapi")), "the stand-in could not be installed")
  # As RStudio finds it.
  addin <- read.dcf(system.file("rstudio", "addins.dcf", package = "pagewise"))
  run <- function(contents, selection, path = "a.R", answer = TRUE) {
    paste(fresh_r(c(
      sprintf(".libPaths(c(%s, .libPaths())); grDevices::pdf(NULL)", deparse1(folder)),
      sprintf("options(pagewise.command = %s, pagewise.runs = 1)", deparse1(getOption("pagewise.command"))),
      sprintf("options(stand.in.answer = %s, stand.in = list(path = %s, contents = %s, selection = lapply(%s, function(t) list(text = t))))",
        answer, deparse1(path), deparse1(contents), deparse1(selection)),
      "used <- 5",
      sprintf("result <- tryCatch(getFromNamespace('%s', 'pagewise')(), pagewise_error = function(e) cat(class(e), conditionMessage(e)))",
        addin[, "Binding"])
    )), collapse = "\n")
  }
  script <- c("y <- used + 1", "stopifnot(y == 6)", "stop('the whole document')")
  selected <- run(script, paste(script[1:2], collapse = "\n"))
  expect_match(selected, "runs the code 2 times.*<pagewise_comparison> \\{.*1 run plain")
  expect_match(run(script, ""), "the whole document")
  expect_match(run(script, "y <- ("), "no complete R code")
  expect_match(run("", ""), "no R code to compare")
  expect_match(run("# Title", "", path = "a.Rmd"), "select the R code")
  expect_false(grepl("comparison>", run(script, "1 + 1", answer = FALSE)))
})
