# Quarterly demand of several products: which method forecasts best, and what comes next.
library(forecast)
set.seed(12)

quarters <- 96
simulate_product <- function(i) {
  season <- 20 * sin(2 * pi * (1:4 + i) / 4)
  level <- 200 + cumsum(rnorm(quarters, .4, 3))
  ts(round(level + rep(season, length.out = quarters) + arima.sim(list(ar = .5), quarters, sd = 8), 1), start = c(2000, 1), frequency = 4)
}
demand <- lapply(1:12, simulate_product)
names(demand) <- paste0("product", seq_along(demand))

methods <- list(
  arima = function(y, h) forecast(auto.arima(y), h = h),
  ets = function(y, h) forecast(ets(y), h = h),
  stl = function(y, h) stlf(y, h = h),
  naive = function(y, h) snaive(y, h = h)
)
scores <- sapply(demand, function(y) {
  training <- window(y, end = c(2021, 4))
  testing <- window(y, start = c(2022, 1))
  sapply(methods, function(method) accuracy(method(training, length(testing)), testing)["Test set", "MASE"])
})
print(round(scores, 3))
print(round(rowMeans(scores), 3))
print(table(winner = rownames(scores)[apply(scores, 2, which.min)]))

best <- names(which.min(rowMeans(scores)))
for (name in names(demand)[1:2]) {
  cat("\n", name, "by", best, "\n")
  print(methods[[best]](demand[[name]], 8))
}

errors <- tsCV(demand[[1]], function(y, h) forecast(ets(y, model = "AAA", damped = FALSE), h = h), h = 3, initial = 60)
print(round(sqrt(colMeans(errors^2, na.rm = TRUE)), 3))
fit <- auto.arima(demand[[2]])
print(fit)
checkresiduals(fit, plot = FALSE)
