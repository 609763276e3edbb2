test_that("what packages brought leaves collections, and comes back", {
  out <- fresh_r(c(
    "library(pagewise); pagewise_on()",
    "cells <- function() gc(full = TRUE)[1, 1]",
    "before <- cells()",
    "cat(withVisible(pagewise_freeze())$visible, cells() < before / 2, '\\n')",
    "pagewise_freeze(); cat(cells() < before / 2, '\\n')",
    "invisible(pagewise_off()); cat(abs(cells() - before) < before / 2)"
  ))
  expect_identical(trimws(out), c("FALSE TRUE", "TRUE", "TRUE"))
})

test_that("finalizers that switch it on run while it is switched off", {
  out <- fresh_r(c(
    "library(pagewise); pagewise_on(); stopifnot(pagewise_freeze()); ran <- FALSE",
    "run <- function(e) { loadNamespace('splines'); pagewise_on(); ran <<- TRUE }",
    "invisible(reg.finalizer(new.env(), run)); invisible(pagewise_off()); invisible(gc())",
    "cat(ran)"
  ))
  expect_identical(out, "TRUE")
})

test_that("workers of a frozen session compute as others, with a collection at every step", {
  work <- c(
    "cell <- new.env(); assign('kept', cell, envir = asNamespace('pagewise')$session)",
    "work <- function(i) {",
    "  old <- list(i, c(5, 6)); gc(); gc()",
    "  cell$old <- old; rm(old); options(mine = lapply(1:9, function(j) c(i, j)))", # passes no barrier of R's
    "  gctorture2(97)",
    "  d <- data.frame(x = 1:30 / i, y = sin(1:30))",
    "  cell$young <- lapply(1:9, function(j) paste('text', i, j))",
    "  gctorture2(0); gc(); x <- lapply(1:20000, function(j) c(j, i)); gc()",
    "  c(coef(lm(y ~ splines::bs(x, df = 4), d)), unlist(getOption('mine')), unlist(cell$old), nchar(unlist(cell$young)))",
    "}",
    "cat(format(unlist(parallel::mclapply(1:4, work, mc.cores = 2)), digits = 12), sep = '\\n')"
  )
  plain <- fresh_r(c("library(pagewise); loadNamespace('splines') -> s", work))
  frozen <- fresh_r(c("library(pagewise); loadNamespace('splines') -> s; pagewise_on(freeze = 'check')",
    work[[1]], "stopifnot(pagewise_freeze())", work[-1]))
  expect_null(attr(frozen, "status"))
  expect_length(plain, 4 * (5 + 18 + 3 + 9))
  expect_identical(frozen, plain)
})

test_that("it says what is missing, and a program that cannot be frozen goes on", {
  out <- fresh_r(c(
    "library(pagewise)",
    "cat(tryCatch(pagewise_freeze(), pagewise_unavailable = conditionMessage), '\\n')",
    "pagewise_on(); invisible(pagewise_off()); stopifnot(.Call(pagewise:::pagewise_freeze_for_forks) == 'Pagewise is not on')",
    "pagewise_on(); invisible(gctorture2(10000))",
    "said <- tryCatch(pagewise_freeze(), pagewise_warning = conditionMessage)",
    "frozen <- suppressWarnings(pagewise_freeze()); invisible(gctorture2(0)); cat(said, frozen, pagewise_freeze(), sep = '\\n')"
  ))
  expect_match(out[[1]], "Call pagewise_on() first", fixed = TRUE)
  expect_match(out[[2]], "nothing was frozen: gctorture is on. Workers work as without it", fixed = TRUE)
  expect_identical(out[3:4], c("FALSE", "TRUE"))
})
