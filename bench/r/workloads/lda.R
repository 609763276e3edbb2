# Linear discriminant analysis (package MASS).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  small = list(rows = 28000, features = 200, folds = 6),
  tiny = list(rows = 300, features = 24, folds = 2))
workload(c("mlr", "MASS"), sizes, function(size) cross_validate(size, makeLearner("classif.lda")))
