# Boosting of classification trees. The package ada is not in Debian: our own learner (learners.R) stands in.
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
source(file.path(folder, "learners.R"))
sizes <- list(
  full = list(rows = 15000, features = 200, folds = 20, iterations = 50),
  small = list(rows = 109000, features = 100, folds = 2, iterations = 5),
  tiny = list(rows = 300, features = 24, folds = 2, iterations = 3))
workload(c("mlr", "rpart"), sizes, function(size) {
  cross_validate(size, makeLearner("classif.boosted_stumps", iterations = size$iterations))
})
