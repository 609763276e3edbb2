# SPDX-License-Identifier: GPL-2.0
# One case, at a size for an emulated processor: r-case.R CASE. The scripts are those of bench/foundation and bench/r;
# what is changed is their sizes, and that learners are fitted without mlr, whose loading alone takes a minute here.
case <- commandArgs(trailingOnly = TRUE)[1]

# Foundation: the vectors' length, in place of what the script says, and how often its loop runs.
lengths <- list(
  "keep-copies" = list(n = 819200L, from = 1:100, to = 1:40), # 6.4 MB, 10 copies kept
  "modified-argument" = list(n = 819200L, from = 1:300, to = 1:60),
  "modified-chain" = list(n = 819200L, from = 1:300, to = 1:60),
  "frame-versions" = list(rows = 65536L, columns = 20L, from = 1:10, to = 1:10), # 10 MB
  "copy-overwrite" = list(n = 819200L, from = 1:60, to = 1:20))
# The R evaluation: sizes in place of the script's.
sizes <- list(
  "b25-1" = list(order = 260, repeats = 3),
  "b25-2" = list(values = 150000, repeats = 6),
  "b25-3" = list(order = 200, repeats = 3),
  "b25-4" = list(pairs = 60000, repeats = 4),
  lda = list(rows = 3000, features = 40, folds = 2),
  rpart = list(rows = 3000, features = 24, folds = 2))

run_foundation <- function(case, size) {
  # `touched` of modified-chain reaches as far as its loop.
  replaced <- function(expression) {
    if (is.call(expression)) {
      if (identical(expression[[1]], as.name("<-")) && as.character(expression[[2]])[1] %in% names(size)) {
        expression[[3]] <- size[[as.character(expression[[2]])[1]]]
        return(expression)
      }
      if (identical(eval_constant(expression), size$from)) return(as.call(list(as.name(":"), 1L, max(size$to))))
      return(as.call(lapply(as.list(expression), replaced)))
    }
    expression
  }
  eval_constant <- function(expression) {
    if (identical(expression[[1]], as.name(":")) && all(vapply(as.list(expression)[-1], is.numeric, NA))) eval(expression)
  }
  for (expression in parse(file.path("foundation", paste0(case, ".R")))) eval(replaced(expression), globalenv())
}

# As cross_validate of bench/r/workloads/common.R, with the packages' own functions in place of mlr's.
fit_and_predict <- list(
  classif.lda = function(train, test) predict(MASS::lda(class ~ ., train), test)$class,
  classif.rpart = function(train, test) predict(rpart::rpart(class ~ ., train), test, type = "class"))

run_workload <- function(case, size) {
  force(size) # before the script's own `sizes` take the place of ours
  folder <- "workloads"
  source(file.path(folder, "common.R"))
  assign("makeLearner", identity, globalenv())
  assign("cross_validate", function(size, learner) {
    data <- two_classes(size$rows, size$features)
    fold <- sample(rep_len(1:20, size$rows))
    wrong <- 0
    for (i in seq_len(size$folds)) {
      predicted <- fit_and_predict[[learner]](data[fold != i, ], data[fold == i, ])
      wrong <- wrong + sum(predicted != data$class[fold == i])
    }
    cat("misclassified", wrong, digest(predicted), "\n")
  }, globalenv())
  assign("workload", function(packages, sizes, work) {
    for (package in setdiff(packages, "mlr")) library(package, character.only = TRUE)
    set.seed(2014)
    work(size)
  }, globalenv())
  for (expression in parse(file.path(folder, paste0(case, ".R")))) {
    is_setup <- identical(expression[[1]], as.name("source")) || identical(expression[[2]], as.name("folder"))
    if (!is_setup) eval(expression, globalenv())
  }
}

if (case == "baseline") {
  invisible(gc())
  cat("baseline\n")
} else if (!is.null(lengths[[case]])) {
  run_foundation(case, lengths[[case]])
} else if (!is.null(sizes[[case]])) {
  run_workload(case, sizes[[case]])
} else {
  stop("no such case: ", case)
}
