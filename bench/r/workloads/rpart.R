# Recursive partitioning for classification trees (package rpart, its defaults).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  small = list(rows = 145000, features = 100, folds = 3),
  tiny = list(rows = 300, features = 24, folds = 2))
workload(c("mlr", "rpart"), sizes, function(size) cross_validate(size, makeLearner("classif.rpart")))
