# Regression by glmnet on a sparse 20000 x 1000 matrix: a program that saves memory by itself already.
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(rows = 20000, columns = 1000, folds = 20, repeats = 2),
  small = list(rows = 27000, columns = 1000, folds = 8, repeats = 1), # 20,000 rows take less than three times R itself
  tiny = list(rows = 300, columns = 20, folds = 3, repeats = 1))
workload(c("Matrix", "glmnet"), sizes, function(size) {
  for (i in seq_len(size$repeats)) {
    dense <- matrix(rnorm(size$rows * size$columns), size$rows)
    dense[sample(length(dense), 0.85 * length(dense))] <- 0
    sparse <- Matrix(dense, sparse = TRUE)
    beta <- c(rnorm(size$columns / 10), rep(0, size$columns - size$columns %/% 10))
    response <- as.vector(sparse %*% beta) + rnorm(size$rows)
    rm(dense)
    fit <- cv.glmnet(sparse, response, nfolds = size$folds)
    predicted <- predict(fit, sparse, s = "lambda.min")
  }
  cat("lambda", format(fit$lambda.min, digits = 15), "predictions", digest(predicted), "\n")
})
