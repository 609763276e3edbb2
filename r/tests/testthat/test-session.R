test_that("loading the package does nothing until asked", {
  out <- fresh_r("library(pagewise); s <- pagewise_status(); cat(s$on, is.null(s$statistics))")
  expect_identical(out, "FALSE TRUE")
})

test_that("options switch it on when it is loaded, quietly", {
  expect_identical(
    fresh_r(c("options(pagewise.autoload = TRUE, pagewise.policy = 'share')", "library(pagewise)",
      "cat(pagewise_status()$on, pagewise_status()$policy)")),
    "TRUE share"
  )
  out <- fresh_r(c("options(pagewise.autoload = TRUE, pagewise.policy = 'nonsense')", "library(pagewise)",
    "cat(pagewise_status()$on)"))
  expect_match(out, "there is no policy \"nonsense\"", all = FALSE)
  expect_identical(out[[length(out)]], "FALSE")
})

test_that("vectors made while it is on are served, those made before and after are not", {
  before <- numeric(1e6)
  expect_false(pagewise_on())
  during <- runif(1e6)
  expect_true(pagewise_off())
  after <- runif(1e6)
  expect_equal(vector_cost(before)$managed, 0)
  expect_equal(vector_cost(during)$managed, 8e6)
  expect_equal(vector_cost(after)$managed, 0)
  expect_false(pagewise_off())
})

test_that("copies share pages until they are written, and values are right", {
  local_pagewise("share")
  x <- as.double(1:1e6) + 0 # not a compact sequence
  y <- x
  y[[1]] <- 0
  expect_gt(vector_cost(y)$shared, 7e6)
  expect_lt(vector_cost(y)$own, 1e5)
  x[] <- 1
  expect_identical(y[-1], as.double(2:1e6))
  expect_identical(sum(x), 1e6)
})

test_that("blocks stay valid through many switches", {
  kept <- list()
  for (i in 1:60) {
    pagewise_on(c("auto", "share", "huge")[[i %% 3 + 1]])
    kept[[i]] <- rep(as.double(i), 5e4)
    if (i %% 2) kept[[i]][[7]] <- -i
    pagewise_off()
    if (i > 20) {
      kept[i - 20] <- list(NULL)
    }
    if (i %% 10 == 0) {
      gc()
    }
  }
  for (i in 41:60) {
    expect_identical(sum(kept[[i]]), if (i %% 2) i * 5e4 - 2 * i else i * 5e4)
  }
  held <- statistic("live_bytes")
  rm(kept)
  gc()
  expect_lt(statistic("live_bytes"), held - 15 * 4e5)
})

test_that("libraries of packages that are loaded later are served", {
  out <- fresh_r(c(
    "library(pagewise); pagewise_on()",
    "invisible(compiler::enableJIT(0))", # the compiler's own copies are not meant here
    "seen <- function() pagewise_status()$statistics[['copies_seen']]",
    "x <- crossprod(matrix(runif(1e6), 1000)) + diag(1000); y <- diag(1000)", # never singular
    "loaded <- function() any(grepl('modules/lapack[.]so', readLines('/proc/self/maps')))",
    "first <- !loaded()",
    "z <- solve(x, y)", # loads lapack.so
    "before <- seen()",
    "z <- .Internal(La_solve(x, y, 0))", # copies both there; R itself copies nothing on the way
    "copied <- seen() > before",
    "cat(first, loaded(), copied)"
  ))
  expect_identical(out[[length(out)]], "TRUE TRUE TRUE")
})

test_that("with_pagewise serves one expression, also when it fails", {
  expect_equal(vector_cost(with_pagewise(runif(1e5)))$managed, 8e5)
  expect_false(pagewise_status()$on)
  expect_error(with_pagewise(stop("inside")), "inside")
  expect_false(pagewise_status()$on)
  local_pagewise("share", threshold = "64K")
  expect_identical(with_pagewise(pagewise_status()$policy, "huge"), "huge")
  expect_identical(pagewise_status()$policy, "share")
  expect_identical(pagewise_status()$options[["threshold"]], "64K")
})

test_that("wrong arguments are told from each other, and change nothing", {
  expect_error(pagewise_on("nonsense"), "no policy \"nonsense\"")
  expect_error(pagewise_on("plain"), "pagewise_off")
  expect_error(pagewise_on("ksm"), "pagewise run --policy ksm")
  expect_error(pagewise_on(c("auto", "share")), "must be one of \"auto\"")
  expect_error(pagewise_on(NA_character_), "must be one of \"auto\"")
  expect_error(pagewise_on(NULL), "must be one of \"auto\", \"share\", \"huge\", not NULL")
  expect_error(pagewise_on(threshold = "7 bananas"), "threshold=7 bananas.*a size from 8K to 1G")
  expect_error(pagewise_on(zero = "maybe"), "`zero` is \"off\", \"backoff\" or \"always\"")
  expect_error(pagewise_on(threshold = "64K,policy=share"), "may not contain")
  expect_error(pagewise_on(threshold = c(1, 2)), "one word or one number")
  expect_error(pagewise_on(colour = "red"), "no option `colour`")
  expect_error(pagewise_on("auto", 5), "need names")
  expect_error(pagewise_on("auto", decay = 1e9), "decay=1000000000.*0 to 3600")
  expect_false(pagewise_status()$on)
})

test_that("wrong options of the session are named as such", {
  old <- options(pagewise.policy = 42)
  on.exit(options(old))
  expect_error(pagewise_on(), "option `pagewise.policy` must be one of .* not 42")
  expect_error(pagewise_on(7), "^`policy` must be")
  options(pagewise.policy = NULL, pagewise.options = "threshold=64K")
  expect_error(pagewise_on(), "options\\(pagewise.options = list\\(threshold")
  options(pagewise.options = NULL)
})

test_that("every option of the core has a name and a form here", {
  told <- pagewise:::option_forms
  for (name in names(told)) {
    error <- tryCatch(do.call(pagewise_on, setNames(list("@"), name)), error = conditionMessage)
    expect_match(error, paste0("`", name, "` is ", told[[name]]), fixed = TRUE)
  }
  source <- file.path(Sys.getenv("PAGEWISE_TREE"), "core/src/policy/options.c")
  skip_if_not(file.exists(source), "not in the source tree")
  found <- grep("^    \\{(\\.name = )?\"[a-z-]+\", (KIND|\\.kind)", readLines(source), value = TRUE)
  names <- sub("^[^\"]*\"([a-z-]+)\".*", "\\1", found)
  expect_true(length(names) > 10)
  # Files and folders are the process's, set where it starts; a limit is policy general's, and so is that.
  expect_setequal(setdiff(names, c("policy", "statistics", "report", "limit")), names(told))
})

test_that("relief of short memory can be switched in a session", {
  on.exit(pagewise_off())
  pagewise_on(relieve = "off")
  expect_identical(unname(pagewise_status()$options["relieve"]), "off")
})

test_that("options of the session are defaults, arguments win", {
  old <- options(pagewise.options = list(decay = 30, huge = FALSE))
  on.exit(options(old))
  pagewise_on(decay = 5)
  expect_identical(as.list(pagewise_status()$options), list(huge = "off", decay = "5"))
  pagewise_off()
})

test_that("it finds itself on under pagewise run, and can pause there", {
  command <- pagewise_command()
  out <- fresh_r(c(
    "library(pagewise)",
    "s <- pagewise_status(); cat(s$on, s$preloaded, s$policy, '\\n')",
    "x <- runif(1e6); cat(vector_cost(x)$managed, '\\n')",
    "pagewise_off(); y <- runif(1e6); cat(vector_cost(y)$managed, '\\n')",
    "pagewise_on('share'); z <- runif(1e6); cat(vector_cost(z)$managed, pagewise_status()$policy, '\\n')",
    "ISM(TRUE); ISM(FALSE); cat(pagewise_status()$policy, '\\n')",
    "libraries <- grep('libpagewise.so', readLines('/proc/self/maps'), value = TRUE)",
    "cat(length(unique(sub('.* ', '', libraries))), '\\n')"
  ), before = c(command, "run", "--"))
  expect_identical(trimws(out[1:6]), c("TRUE TRUE auto", "8e+06", "0", "8e+06 share", "share", "1"))
})

test_that("a policy that cannot be come back to is not left", {
  out <- fresh_r(c(
    "library(pagewise)",
    "try_it <- function(expr) cat(tryCatch(expr, error = function(e) sub(',.*', '', conditionMessage(e))), '\\n')",
    "try_it(with_pagewise('evaluated'))",
    "try_it(ISM(TRUE))",
    "cat(pagewise_status()$on, pagewise_status()$policy, '\\n')"
  ), before = c(pagewise_command(), "run", "--quiet", "--policy", "general", "--"))
  refused <- 'cannot be used here: this process runs with policy "general"'
  expect_identical(trimws(out), c(paste(c("with_pagewise()", "ISM(TRUE)"), refused), "TRUE general"))
})

test_that("children of a fork compute on vectors and can switch", {
  local_pagewise("share")
  x <- runif(1e6)
  y <- x
  y[[1]] <- 0
  sums <- parallel::mclapply(1:4, function(i) {
    if (i == 3) pagewise_off()
    z <- x
    z[[i]] <- 0
    if (i == 4) pagewise_on("auto")
    gc()
    c(sum(z + y), sum(x))
  }, mc.cores = 2)
  expect_identical(sums, lapply(1:4, function(i) c(sum(replace(x, i, 0) + y), sum(x))))
})

test_that("a library that stands before malloc is named, and nothing is changed", {
  record <- Sys.glob(file.path(Sys.getenv("PAGEWISE_TREE"), "build/lib/libpagewise-record.so"))
  skip_if(length(record) == 0, "the recorder was not built")
  link <- tempfile() # the variable is split at spaces
  file.symlink(dirname(record), link)
  on.exit(unlink(link))
  out <- fresh_r("library(pagewise); try(pagewise_on()); cat(pagewise_status()$on)",
    environment = paste0("LD_PRELOAD=", file.path(link, basename(record))))
  expect_match(out, "another library stands before", all = FALSE)
  expect_identical(out[[length(out)]], "FALSE")
})

test_that("status says what is the case, in words", {
  local_pagewise()
  x <- runif(1e6)
  expect_output(print(pagewise_status()), "on, policy auto, for R and its packages")
  expect_identical(class(pagewise_status()), "pagewise_status")
})

# CPU time: on a busy machine others' work would count in elapsed time. Nothing here waits.
test_that("loading and switching on are not felt", {
  seconds <- replicate(5, as.numeric(fresh_r(
    "cat(sum(system.time({library(pagewise); pagewise_on()})[1:2]))"
  )))
  expect_lt(min(seconds), 0.05)
})

test_that("unloading the package switches off, and blocks live on", {
  lines <- fresh_r(c(
    "library(pagewise); pagewise_on(); x <- runif(1e6); s <- sum(x)",
    "unloadNamespace('pagewise')",
    "library(pagewise)",
    "cat(pagewise_status()$on, identical(sum(x), s), '\\n')"
  ))
  expect_match(utils::tail(lines, 1), "FALSE TRUE")
})
