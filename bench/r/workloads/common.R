# What every workload shares: sizes, the baseline, the synthetic data and the digest of what came out.
#
#   Rscript WORKLOAD.R full|small|tiny       do the work, print a digest of the results
#   Rscript WORKLOAD.R full|small|tiny baseline    load the same packages, and nothing else
#
# The digest is of the results' exact bytes: a configuration that changes one bit of one prediction prints another.

# `sizes` has one list a scale; `work` gets the one asked for.
workload <- function(packages, sizes, work) {
  arguments <- commandArgs(trailingOnly = TRUE)
  scale <- if (length(arguments)) arguments[1] else "small"
  if (is.null(sizes[[scale]])) {
    stop("no such scale: ", scale, " (there are: ", paste(names(sizes), collapse = ", "), ")", call. = FALSE)
  }
  for (package in packages) {
    suppressWarnings(suppressPackageStartupMessages(library(package, character.only = TRUE)))
  }
  if (identical(arguments[2], "baseline")) {
    invisible(gc())
    Sys.sleep(0.5) # long enough to be sampled at rest
    cat("baseline\n")
    return(invisible())
  }
  set.seed(2014)
  work(sizes[[scale]])
}

digest <- function(...) {
  file <- tempfile()
  on.exit(unlink(file))
  connection <- file(file, "wb")
  for (value in list(...)) writeBin(if (is.factor(value)) as.integer(value) else as.vector(value), connection)
  close(connection)
  unname(tools::md5sum(file))
}

# A two-class set without missing values. Its features are numbers of four kinds, in equal parts: continuous, skewed,
# counts and 0/1. A tenth of them, of every kind, tell the classes apart; some noise is in the class itself.
two_classes <- function(rows, features) {
  class <- rbinom(rows, 1, 0.5)
  flipped <- ifelse(runif(rows) < 0.05, 1 - class, class)
  column <- function(index) {
    shift <- if (index %% 10 < 1) 0.4 * class else 0
    switch(index %/% 10 %% 4 + 1,
      rnorm(rows) + shift,
      exp(rnorm(rows, sd = 0.5) + shift),
      as.numeric(rpois(rows, 3 + 2 * shift)),
      as.numeric(runif(rows) < 0.4 + 0.4 * shift))
  }
  data <- lapply(seq_len(features), column)
  names(data) <- paste0("x", seq_len(features))
  data$class <- factor(c("a", "b")[flipped + 1])
  data.frame(data)
}

# 20-fold cross-validation through mlr, as the paper does for all ten learners; a smaller scale runs fewer of the 20 folds.
cross_validate <- function(size, learner) {
  configureMlr(show.info = FALSE, on.learner.warning = "quiet")
  task <- makeClassifTask(data = two_classes(size$rows, size$features), target = "class")
  folds <- makeResampleInstance(makeResampleDesc("CV", iters = 20), task)
  chosen <- seq_len(size$folds)
  folds$train.inds <- folds$train.inds[chosen]
  folds$test.inds <- folds$test.inds[chosen]
  folds$desc$iters <- size$folds
  result <- resample(learner, task, folds)
  predictions <- result$pred$data
  predictions <- predictions[order(predictions$id), ]
  cat("misclassified", format(mean(predictions$response != predictions$truth), digits = 15), "of", nrow(predictions), "\n")
  cat("predictions", digest(predictions$id, predictions$response), "\n")
}
