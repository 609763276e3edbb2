# Least-squares support vector machine (package kernlab, its defaults: an incomplete Cholesky decomposition).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  small = list(rows = 7500, features = 50, folds = 6),
  tiny = list(rows = 300, features = 24, folds = 2))
workload(c("mlr", "kernlab"), sizes, function(size) cross_validate(size, makeLearner("classif.lssvm")))
