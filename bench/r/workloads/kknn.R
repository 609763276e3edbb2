# Kernel-weighted nearest neighbours. The package kknn is not in Debian: our own learner (learners.R) stands in.
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
source(file.path(folder, "learners.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  small = list(rows = 16500, features = 100, folds = 6),
  tiny = list(rows = 300, features = 24, folds = 2))
workload("mlr", sizes, function(size) cross_validate(size, makeLearner("classif.weighted_neighbours")))
