# Logistic regression (glm), cut at a probability of 0.5.
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20),
  # Too little memory (table 5): the paper's logreg-2.
  large = list(rows = 70000, features = 300, folds = 20),
  "small-large" = list(rows = 70000, features = 300, folds = 1),
  small = list(rows = 120000, features = 60, folds = 8),
  tiny = list(rows = 300, features = 24, folds = 2))
workload("mlr", sizes, function(size) cross_validate(size, makeLearner("classif.logreg")))
