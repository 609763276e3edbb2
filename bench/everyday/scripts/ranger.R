# Random forests: predict house prices and who leaves, tune, and ask which variables matter.
library(ranger)
set.seed(55)

n <- 9000
houses <- data.frame(area = rlnorm(n, 4.6, .4), rooms = sample(1:8, n, replace = TRUE), built = sample(1900:2020, n, replace = TRUE),
                     lon = runif(n), lat = runif(n), district = factor(sample(letters[1:12], n, replace = TRUE)))
houses <- cbind(houses, matrix(rnorm(n * 15), n, dimnames = list(NULL, sprintf("noise%02d", 1:15))))
houses$price <- with(houses, 2000 * area + 15000 * rooms + 300 * (built - 1950) + 120000 * exp(-6 * ((lon - .5)^2 + (lat - .5)^2)) +
  8000 * as.integer(district) + rnorm(n, 0, 30000))
train <- sample(n, 6000)

grid <- expand.grid(mtry = c(4, 8), min.node.size = c(5, 20))
grid$error <- sapply(seq_len(nrow(grid)), function(i) {
  fit <- ranger(price ~ ., data = houses[train, ], num.trees = 40, mtry = grid$mtry[i], min.node.size = grid$min.node.size[i],
                num.threads = 1, seed = 1)
  sqrt(fit$prediction.error)
})
print(grid)
best <- grid[which.min(grid$error), ]

forest <- ranger(price ~ ., data = houses[train, ], num.trees = 100, mtry = best$mtry, min.node.size = best$min.node.size,
                 importance = "impurity", num.threads = 1, seed = 2)
print(forest)
print(round(sort(forest$variable.importance, decreasing = TRUE)[1:8] / 1e9, 2))
predicted <- predict(forest, houses[-train, ], num.threads = 1)$predictions
cat("error on the test set:", round(sqrt(mean((predicted - houses$price[-train])^2))), "\n")

houses$sold <- factor(ifelse(runif(n) < plogis((250000 - houses$price) / 80000), "sold", "open"))
chance <- ranger(sold ~ . - price, data = houses[train, ], num.trees = 100, probability = TRUE, num.threads = 1, seed = 3)
probability <- predict(chance, houses[-train, ], num.threads = 1)$predictions[, "sold"]
print(table(predicted = probability > .5, observed = houses$sold[-train]))
print(round(tapply(houses$sold[-train] == "sold", cut(probability, seq(0, 1, .2)), mean), 3))

quantiles <- ranger(price ~ ., data = houses[train, ], num.trees = 50, quantreg = TRUE, num.threads = 1, seed = 4)
print(round(head(predict(quantiles, houses[-train, ][1:1000, ], type = "quantiles", quantiles = c(.1, .5, .9))$predictions)))
