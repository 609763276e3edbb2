# Random classification forest (package randomForest, its 500 trees at full scale).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20, trees = 500),
  small = list(rows = 20000, features = 20, folds = 2, trees = 310),
  tiny = list(rows = 300, features = 24, folds = 2, trees = 10))
workload(c("mlr", "randomForest"), sizes, function(size) {
  cross_validate(size, makeLearner("classif.randomForest", ntree = size$trees))
})
