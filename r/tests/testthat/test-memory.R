test_that("a vector of its own costs its pages", {
  skip_without_page_table()
  x <- runif(1e6)
  cost <- vector_cost(x)
  expect_equal(cost$bytes, 8e6)
  expect_lte(abs(cost$own - 8e6), 8192)
  expect_equal(cost$shared, 0)
  expect_identical(cost$shared_with, character())
})

test_that("asking does not change what is asked", {
  x <- runif(1e6)
  assign("asked", x, globalenv())
  rm(x)
  on.exit(rm("asked", envir = globalenv()))
  vector_cost(get("asked", globalenv()))
  memory_report()
  before <- tracemem(get("asked", globalenv()))
  out <- utils::capture.output(evalq(asked[1] <- 0, globalenv()))
  untracemem(get("asked", globalenv()))
  expect_identical(grep("tracemem", out), integer())
})

test_that("sharing names its partners", {
  skip_without_page_table()
  local_pagewise("share")
  evalq({
    pw_one <- runif(1e6)
    pw_two <- pw_one
    pw_two[[1]] <- 0
  }, globalenv())
  on.exit(rm("pw_one", "pw_two", envir = globalenv()), add = TRUE)
  pw_one <- get("pw_one", globalenv())
  expect_identical(vector_cost(pw_one)$shared_with, "pw_two")
  report <- memory_report(1000)
  row <- report$vectors[report$vectors$name == "pw_two", ]
  expect_match(row$shared_with, "pw_one")
  expect_gt(row$shared, 7e6)
})

test_that("pages that were never written are absent", {
  skip_without_page_table()
  local_pagewise()
  x <- numeric(4e6)
  cost <- vector_cost(x)
  expect_gt(cost$absent, 3e7)
  expect_lt(cost$own, 1e6)
})

test_that("odd objects have a cost as well", {
  expect_equal(vector_cost(1:1e9)$compact, 4e9)
  expect_equal(vector_cost(1:1e9)$own, 0)
  expect_equal(vector_cost(NULL)$bytes, 0)
  expect_equal(vector_cost(integer())$bytes, 0)
  expect_equal(vector_cost(raw(10))$bytes, 10)
  expect_equal(vector_cost(c(a = 1i))$bytes, 16)
  x <- runif(1e5)
  expect_equal(vector_cost(list(x, x, list(x)))$bytes, 8e5 + 24 + 8)
  expect_equal(vector_cost(data.frame(a = x))$bytes, 8e5 + 8)
  deep <- 1
  for (i in 1:1000) deep <- list(deep)
  expect_gt(vector_cost(deep)$vectors, 10)
  expect_output(print(vector_cost(list(x, "a", 1:1e9))), "compact")
})

test_that("what the slots of S4 objects hold is counted", {
  setClass("PwSlots", representation(values = "numeric", parts = "list", none = "NULL"), where = globalenv())
  setClass("PwNumbers", contains = "numeric", representation(more = "numeric"), where = globalenv())
  on.exit(for (name in c("PwSlots", "PwNumbers")) removeClass(name, where = globalenv()))
  x <- new("PwSlots", values = runif(1e5), parts = list(runif(1e4)))
  expect_equal(vector_cost(x)$bytes, 8e5 + 8 + 8e4)
  expect_equal(vector_cost(list(x))$bytes, 8 + 8e5 + 8 + 8e4)
  expect_equal(vector_cost(new("PwNumbers", runif(1e5), more = runif(1e4)))$bytes, 8e5 + 8e4)
  assign("pw_slots", x, globalenv())
  on.exit(rm("pw_slots", envir = globalenv()), add = TRUE)
  found <- memory_report(1000)$vectors
  expect_equal(found$bytes[found$name == "pw_slots"], 8e5 + 8 + 8e4)
})

test_that("each of many vectors counts once, and names its partners", {
  x <- lapply(1:1000, function(i) runif(1000))
  expect_equal(vector_cost(c(x, x))$bytes, 1000 * 8000 + 2000 * 8)
  x <- share(x)
  assign("pw_last", x[[1000]], globalenv())
  on.exit(rm("pw_last", envir = globalenv()))
  expect_identical(vector_cost(x)$shared_with, "pw_last")
  expect_identical(vector_cost(x[1:999])$shared_with, character())
})

test_that("the report adds up and leaves promises and active bindings alone", {
  delayedAssign("pw_promise", stop("forced"), assign.env = globalenv())
  makeActiveBinding("pw_active", function() stop("called"), globalenv())
  on.exit(rm("pw_promise", "pw_active", envir = globalenv()))
  x <- runif(2e6)
  assign("pw_large", x, globalenv())
  on.exit(rm("pw_large", envir = globalenv()), add = TRUE)
  report <- memory_report(3)
  expect_lte(nrow(report$vectors), 3)
  expect_true("pw_large" %in% report$vectors$name)
  expect_gt(report$physical, 16e6)
  expect_gt(report$page_tables, 0)
  rss <- as.numeric(sub("\\D*(\\d+).*", "\\1", grep("VmRSS", readLines("/proc/self/status"), value = TRUE)))
  expect_lt(report$physical, rss * 1024 * 1.1 + 1e6)
  expect_output(print(report), "pw_large")
  expect_error(memory_report("all"), "number of variables")
  expect_equal(nrow(memory_report(0)$vectors), 0)
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  expect_silent(plot(report))
  expect_error(plot(memory_report(0)), "no variables")
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
})

test_that("a profile shows the peak of an expression and returns its value", {
  gc() # what the collector frees meanwhile would hide the rise
  profile <- memory_profile({
    x <- runif(5e6)
    Sys.sleep(0.1)
    rm(x)
    "value"
  }, interval = 0.005)
  expect_identical(profile$value, "value")
  expect_gt(profile$peak - profile$start, 30e6)
  expect_lt(profile$peak - profile$start, 80e6)
  expect_gte(profile$elapsed, 0.1)
  expect_gt(nrow(profile$samples), 10)
  expect_lte(profile$average, profile$peak)
  expect_output(print(profile), "peak")
  expect_named(summary(profile), c("peak", "average", "start", "end", "elapsed"))
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  expect_silent(plot(profile))
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
})

test_that("a profile goes on when it has as many samples as it may", {
  gc()
  handle <- .Call(pagewise:::pagewise_profile_start, 0.001, 64)
  x <- runif(2e7) # more than earlier tests may have left
  Sys.sleep(0.2) # seen on a busy machine too
  rm(x)
  gc()
  start <- proc.time()[["elapsed"]]
  Sys.sleep(1)
  slept <- proc.time()[["elapsed"]] - start
  samples <- .Call(pagewise:::pagewise_profile_stop, handle)
  expect_lte(nrow(samples), 64)
  expect_gt(nrow(samples), 16)
  expect_false(is.unsorted(samples[, 1], strictly = TRUE))
  expect_gte(samples[nrow(samples), 1], slept)
  expect_lt(samples[1, 1], 0.1)
  expect_gt(max(samples[, 2]) - samples[1, 2], 25e6)
})

test_that("profiles end with errors, nest, and survive forks", {
  expect_error(memory_profile(stop("inside")), "inside")
  outer <- memory_profile(memory_profile(sum(1:10))$value + 1)
  expect_equal(outer$value, 56)
  forked <- memory_profile(parallel::mclapply(1:2, function(i) {
    gc()
    memory_profile(i)$value
  }))
  expect_equal(forked$value, list(1L, 2L))
  expect_error(memory_profile(1, interval = 0), "from 0.001 to 60")
  expect_error(memory_profile(1, interval = "fast"), "from 0.001 to 60")
  threads <- length(list.files("/proc/self/task"))
  for (i in 1:20) memory_profile(1)
  expect_lte(length(list.files("/proc/self/task")), threads)
})

test_that("what holds no vectors of its own is refused, not counted as nothing", {
  expect_error(vector_cost(function(x) x), "must be a vector")
  expect_error(vector_cost(new.env()), "must be a vector")
  expect_error(vector_cost(quote(a)), "must be a vector")
  expect_s3_class(vector_cost(list(1, "a")), "vector_cost")
})

test_that("pages of shared objects count as shared, whether they were touched or not", {
  skip_without_page_table()
  x <- share(list(a = runif(1e6), b = as.character(1:1e5)))
  cost <- vector_cost(x)
  expect_equal(cost$absent, 0)
  expect_equal(cost$compact, 0)
  expect_gt(cost$published, 8e6)
  expect_equal(cost$published, cost$shared)
  expect_output(print(cost), "shared_info\\(\\)")
  assign("shared_of_test", x$a, envir = globalenv())
  on.exit(rm("shared_of_test", envir = globalenv()))
  expect_identical(vector_cost(x)$shared_with, "shared_of_test")
  y <- x$a
  y[1] <- 2
  cost <- vector_cost(y)
  expect_equal(cost$own, 4096)
  expect_gt(cost$published, 7.9e6)
  expect_output(print(memory_report()), "share\\(\\) .* other processes may have")
  expect_gte(memory_report()$objects, 8e6)
  rm(x, y)
  rm("shared_of_test", envir = globalenv())
  on.exit()
  gc()
  expect_equal(memory_report()$objects, 0)
})
