# Regularised discriminant analysis. The package klaR is not in Debian: our own learner (learners.R) stands in.
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
source(file.path(folder, "learners.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20, grid = 5, inner_folds = 10),
  small = list(rows = 103000, features = 100, folds = 4, grid = 2, inner_folds = 3),
  tiny = list(rows = 300, features = 24, folds = 2, grid = 2, inner_folds = 2))
workload("mlr", sizes, function(size) {
  cross_validate(size, makeLearner("classif.regularised_discriminant", grid = size$grid,
    inner_folds = size$inner_folds))
})
