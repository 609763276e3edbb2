test_that("ISM switches large pages on and off at run time", {
  expect_false(ISM())
  expect_false(ISM.status()$status)
  expect_false(ISM(TRUE))
  expect_true(ISM())
  x <- runif(2e6)
  segments <- ISM.list()
  mine <- segments[segments$size >= 16e6 & segments$size < 17e6, ]
  expect_equal(nrow(mine), 1)
  expect_match(mine$address, "^0x")
  expect_true(ISM(FALSE))
  expect_false(ISM())
  expect_false(pagewise_status()$on)
  expect_equal(length(x), 2e6)
  rm(x)
  gc()
  after <- ISM.list()
  expect_true(is.null(after) || !any(after$id %in% mine$id & after$size == mine$size))
})

test_that("vectors outside of the limits are left alone", {
  on.exit(ISM(FALSE))
  ISM(TRUE, minKB = 4096, maxKB = 10240)
  status <- ISM.status()
  expect_equal(c(status$minKB, status$maxKB, status$largepagesize), c(4096, 10240, 2048))
  small <- runif(2e5)
  fits <- runif(1e6)
  large <- runif(4e6)
  sizes <- ISM.list()$size
  expect_equal(sum(sizes > 7e6 & sizes < 9e6), 1)
  expect_equal(sum(sizes > 3e7), 0)
})

test_that("ISM keeps what the session has, and gives it back", {
  local_pagewise("share", decay = 3)
  ISM(TRUE)
  ISM(TRUE, minKB = 2048)
  expect_identical(pagewise_status()$policy, "share")
  expect_identical(pagewise_status()$options[["decay"]], "3")
  ISM(FALSE)
  expect_true(pagewise_status()$on)
  expect_identical(as.list(pagewise_status()$options), list(decay = "3"))
  expect_false(ISM())
})

test_that("ISM(FALSE) ends large pages, whatever happened since or began them", {
  ISM(TRUE)
  expect_identical(with_pagewise(pagewise_status()$policy, "share"), "share")
  expect_true(ISM())
  ISM(FALSE)
  expect_false(ISM())
  expect_false(pagewise_status()$on)
  local_pagewise("share", huge = "always", huge_min = "2M", lock = TRUE, decay = 3)
  expect_true(ISM(FALSE))
  expect_false(ISM())
  expect_identical(pagewise_status()$policy, "share")
  expect_identical(as.list(pagewise_status()$options), list(decay = "3"))
  pagewise_on("share", huge = "always")
  ISM(TRUE, minKB = 4096)
  ISM(FALSE)
  expect_false(ISM())
})

test_that("the status reads sizes as the options have them", {
  local_pagewise("huge", huge = "always", huge_min = "2M", huge_max = "1G")
  expect_no_warning(status <- ISM.status())
  expect_equal(c(status$minKB, status$maxKB), c(2048, 2^20))
  pagewise_on("huge", huge = "always", huge_min = 2^21, huge_max = "4096K")
  expect_equal(unlist(ISM.status()[c("minKB", "maxKB")]), c(minKB = 2048, maxKB = 4096))
  out <- fresh_r("library(pagewise); s <- ISM.status(); cat(ISM(), s$status, s$minKB)",
    environment = "PAGEWISE_OPTIONS=huge=always,huge-min=2M", before = c(pagewise_command(), "run", "--quiet", "--"))
  expect_identical(out[[length(out)]], "TRUE TRUE 2048")
})

test_that("wishes that cannot be had fall back, and the status says why", {
  free <- suppressWarnings(as.numeric(readLines("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")))
  skip_if_not(identical(free, 0), "the hugetlb pool has pages")
  on.exit(ISM(FALSE))
  session <- pagewise:::session
  session$told <- setdiff(session$told, "hugetlb")
  expect_message(ISM(TRUE, pages = "hugetlb"), "no free page of 2 MB now.*nr_hugepages")
  expect_no_message(ISM(TRUE, pages = "hugetlb"))
  expect_match(ISM.status()$fallback, "no free page of 2 MB", all = FALSE)
  x <- runif(1e6)
  expect_identical(sum(x >= 0), 1000000L)
  expect_match(ISM.status()$fallback, "could not serve", all = FALSE)
  expect_output(print(ISM.status()), "nr_hugepages")
  suppressMessages(ISM(TRUE, pages = "hugetlb-1g"))
  expect_equal(ISM.status()$largepagesize, 2^20)
  y <- runif(1e6)
  expect_identical(sum(y >= 0), 1000000L)
})

hugetlb <- function(kb, file) sprintf("/sys/kernel/mm/hugepages/hugepages-%dkB/%s", kb, file)

free_pages <- function(kb) {
  text <- tryCatch(suppressWarnings(readLines(hugetlb(kb, "free_hugepages"))), error = function(e) NA)
  suppressWarnings(as.numeric(text))
}

# Pages in the pool for one test: those that are there, or as root so many more, until the test ends.
local_hugetlb_pages <- function(kb, count, frame = parent.frame()) {
  if (isTRUE(free_pages(kb) >= count)) {
    return()
  }
  file <- hugetlb(kb, "nr_hugepages")
  skip_if_not(file.access(file, 2) == 0, "the hugetlb pool has no pages, and filling it needs root")
  before <- readLines(file)
  restore <- bquote({
    invisible(gc())
    writeLines(.(before), .(file))
  })
  do.call(on.exit, list(restore, add = TRUE), envir = frame)
  writeLines(as.character(as.numeric(before) + count), file)
  skip_if_not(isTRUE(free_pages(kb) >= count), sprintf("the kernel has no room for %d pages of %d kB", count, kb))
}

test_that("pages of 1 GB are taken where there are any", {
  local_hugetlb_pages(2^20, 1)
  before <- free_pages(2^20)
  on.exit(ISM(FALSE), add = TRUE, after = FALSE)
  ISM(TRUE, pages = "hugetlb-1g")
  x <- runif(1.4e8) # 1.12 GB: one page of the pool, and the rest
  expect_match(ISM.list()$pages, "hugetlb 1 GB", all = FALSE)
  expect_equal(free_pages(2^20), before - 1)
  expect_identical(range(x) > c(-1, .9), c(TRUE, TRUE))
  child <- parallel::mcparallel({
    x[1] <- 2
    x[1] + x[1.4e8]
  })
  expect_gt(parallel::mccollect(child)[[1]], 2)
  expect_lt(x[1], 1)
  rm(x)
  gc()
  expect_equal(free_pages(2^20), before)
})

test_that("pages of the hugetlb pool are taken, counted and given back", {
  local_hugetlb_pages(2048, 64)
  free <- function() free_pages(2048)
  before <- free()
  on.exit(ISM(FALSE), add = TRUE, after = FALSE)
  ISM(TRUE, pages = "hugetlb")
  x <- runif(2e6)
  expect_match(ISM.list()$pages, "hugetlb 2 MB", all = FALSE)
  expect_lt(free(), before)
  expect_gt(memory_report()$huge, 12e6)
  expect_equal(memory_profile(sum(x > 2))$value, 0)
  y <- x
  y[[1]] <- 0
  expect_identical(y[-1], x[-1])
  rm(x, y)
  gc()
  expect_equal(free(), before)
})

test_that("locked vectors are locked, or the status says why not", {
  on.exit(ISM(FALSE))
  locked <- function() as.numeric(sub("\\D*(\\d+).*", "\\1", grep("VmLck", readLines("/proc/self/status"), value = TRUE)))
  before <- locked()
  ISM(TRUE, lock = TRUE, pages = "ordinary")
  x <- runif(1e6)
  expect_true(locked() - before > 7000 || length(ISM.status()$fallback) > 0)
  expect_match(ISM.list()$pages, "locked", all = FALSE)
  y <- x
  y[[1]] <- 0
  expect_identical(y[-1], x[-1])
  rm(x, y)
  gc()
  expect_lte(locked(), before + 1000)
})

test_that("large pages and locked vectors survive forks", {
  on.exit(ISM(FALSE))
  ISM(TRUE, pages = "hugetlb", lock = TRUE)
  x <- runif(1e6)
  sums <- parallel::mclapply(1:3, function(i) {
    x[] <- i
    sum(x)
  })
  expect_identical(sums, list(1e6, 2e6, 3e6))
  expect_lt(sum(x), 1e6)
})

test_that("a vector that exists can be gathered into large pages", {
  skip_if(pagewise:::transparent_mode() == "never", "transparent huge pages are off")
  kernel <- numeric_version(sub("^([0-9]+[.][0-9]+).*", "\\1", Sys.info()[["release"]]))
  skip_if(kernel < "6.1", "the kernel cannot gather pages")
  x <- runif(2e6)
  before <- sum(x)
  expect_gt(ISM.collapse(x), 0)
  expect_identical(sum(x), before)
  expect_identical(ISM.collapse(1:1e9), 0)
  expect_identical(ISM.collapse(NULL), 0)
  expect_identical(ISM.collapse(mean), 0)
})

test_that("free pages can be given back", {
  local_pagewise()
  x <- runif(4e6)
  rm(x)
  gc()
  # R frees and makes vectors of its own between any two of these calls: what counts is x.
  expect_gte(statistic("cached_bytes"), 32e6)
  expect_gte(ISM.trim(), 32e6)
  expect_lt(statistic("cached_bytes"), 1e6)
})

test_that("assignment with large pages works as in the slides", {
  `:=` <- ism_assign
  foo := matrix(runif(2e6), 1000)
  expect_equal(dim(foo), c(1000, 2000))
  expect_true(any(ISM.list()$size >= 16e6))
  expect_false(ISM())
  "bar" := 5
  expect_equal(bar, 5)
  expect_error(foo[1] := 2, "must be a name")
  expect_error(baz := stop("inside"), "inside")
  expect_false(ISM())
  expect_false(":=" %in% getNamespaceExports("pagewise"))
})

test_that("wrong arguments are refused", {
  expect_error(ISM(NA), "TRUE or FALSE")
  expect_error(ISM("yes"), "TRUE or FALSE")
  expect_error(ISM(TRUE, minKB = 1), "from 8 on")
  expect_error(ISM(TRUE, minKB = 4096, maxKB = 1024), "less than")
  expect_error(ISM(TRUE, pages = "gigantic"), "must be one of")
  expect_error(ISM(TRUE, lock = 3), "TRUE or FALSE")
  expect_false(ISM())
})
