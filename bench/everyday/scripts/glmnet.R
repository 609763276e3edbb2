# Which of many markers predict an outcome? Lasso, elastic net and logistic lasso, with cross-validation.
library(glmnet)
set.seed(5)

n <- 2200
p <- 800
blocks <- matrix(rnorm(n * p / 20), n)[, rep(seq_len(p / 20), each = 20)]
x <- .6 * blocks + .8 * matrix(rnorm(n * p), n)
colnames(x) <- sprintf("marker%04d", seq_len(p))
beta <- numeric(p)
beta[sample(p, 40)] <- rnorm(40, 0, .4)
y <- drop(x %*% beta) + rnorm(n, 0, 2)
disease <- rbinom(n, 1, plogis(drop(x %*% beta)))
train <- sample(n, 1500)
fold <- sample(rep(1:5, length.out = length(train)))

alphas <- c(1, .5)
fits <- lapply(alphas, function(alpha) cv.glmnet(x[train, ], y[train], alpha = alpha, foldid = fold))
for (i in seq_along(alphas)) {
  chosen <- coef(fits[[i]], s = "lambda.1se")
  error <- mean((y[-train] - predict(fits[[i]], x[-train, ], s = "lambda.min"))^2)
  cat(sprintf("alpha %.1f: lambda %.4f, %d markers, test error %.4f\n", alphas[i], fits[[i]]$lambda.min, sum(chosen != 0) - 1, error))
}
best <- coef(fits[[1]], s = "lambda.1se")
found <- rownames(best)[best[, 1] != 0][-1]
print(table(found = colnames(x) %in% found, true = beta != 0))
print(round(best[head(found, 15), ], 4))

logistic <- cv.glmnet(x[train, ], disease[train], family = "binomial", type.measure = "auc", foldid = fold)
print(logistic)
probability <- predict(logistic, x[-train, ], s = "lambda.1se", type = "response")
print(table(predicted = probability > .5, observed = disease[-train]))
