# Naive Bayes classifier (package e1071).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  small = list(rows = 132000, features = 200, folds = 2),
  tiny = list(rows = 300, features = 24, folds = 2))
workload(c("mlr", "e1071"), sizes, function(size) cross_validate(size, makeLearner("classif.naiveBayes")))
