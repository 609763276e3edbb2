# Backtest: minute prices of ten shares to bars, rolling risk, and a crossing of averages with many windows.
library(xts)
set.seed(101)

minutes <- seq(as.POSIXct("2023-01-02 09:00", tz = "UTC"), by = "min", length.out = 250 * 480)
shares <- sprintf("share%02d", 1:10)
market <- rnorm(length(minutes), 0, 2e-4)
prices <- xts(sapply(shares, function(s) 100 * exp(cumsum(.8 * market + rnorm(length(minutes), 1e-7, 3e-4)))), order.by = minutes)
print(head(prices[, 1:4], 3))

bars <- lapply(shares, function(s) to.period(prices[, s], "hours", name = s))
names(bars) <- shares
print(tail(bars[[1]], 3))
daily <- prices[endpoints(prices, "days")]
returns <- diff(log(daily))[-1]
print(round(100 * apply.monthly(returns, colSums)[, 1:5], 2))
hourly <- period.apply(prices, endpoints(prices, "hours"), function(x) apply(x, 2, max) - apply(x, 2, min))
print(round(colMeans(hourly), 4))

risk <- rollapply(returns, 20, function(r) quantile(r, .05), by.column = TRUE, align = "right")
print(round(tail(risk[, 1:4], 3), 5))
correlation <- rollapply(returns, 30, function(r) mean(cor(r)[upper.tri(diag(10))]), by.column = FALSE, align = "right")
print(round(summary(as.vector(correlation)), 4))

five <- prices[endpoints(prices, "minutes", 5)]
backtest <- function(price, fast, slow) {
  signal <- lag(rollmean(price, fast, align = "right", fill = NA) > rollmean(price, slow, align = "right", fill = NA))
  gains <- na.omit(diff(log(price)) * signal)
  c(total = sum(gains), sharpe = mean(gains) / sd(gains), drawdown = max(cummax(cumsum(gains)) - cumsum(gains)))
}
windows <- expand.grid(fast = c(5, 10, 20, 40), slow = c(60, 120, 240, 480))
results <- lapply(shares, function(s) {
  cbind(share = s, windows, t(mapply(function(fast, slow) backtest(five[, s], fast, slow), windows$fast, windows$slow)))
})
results <- do.call(rbind, results)
best <- do.call(rbind, lapply(split(results, results$share), function(one) one[which.max(one$sharpe), ]))
print(cbind(best[, 1:3], round(best[, 4:6], 4)), row.names = FALSE)
print(round(aggregate(sharpe ~ fast + slow, results, mean), 5))
merged <- na.locf(merge(daily[, 1:3], bars[[1]][, 4], bars[[2]][, 4]))
print(round(tail(merged, 3), 3))
