# Bootstrap particle filter for a stochastic volatility model, with the likelihood on a grid of one parameter.
set.seed(2024)

simulate_returns <- function(n, phi, sigma, beta) {
  x <- numeric(n)
  x[1] <- rnorm(1, 0, sigma / sqrt(1 - phi^2))
  for (t in 2:n) x[t] <- phi * x[t - 1] + sigma * rnorm(1)
  data.frame(x = x, y = beta * exp(x / 2) * rnorm(n))
}

particle_filter <- function(y, particles, phi, sigma, beta) {
  n <- length(y)
  history <- matrix(0, particles, n)
  log_likelihood <- 0
  x <- rnorm(particles, 0, sigma / sqrt(1 - phi^2))
  for (t in seq_len(n)) {
    if (t > 1) x <- phi * x + sigma * rnorm(particles)
    w <- dnorm(y[t], 0, beta * exp(x / 2), log = TRUE)
    top <- max(w)
    w <- exp(w - top)
    log_likelihood <- log_likelihood + top + log(mean(w))
    x <- x[sample.int(particles, particles, replace = TRUE, prob = w)]
    history[, t] <- x
  }
  list(history = history, log_likelihood = log_likelihood)
}

market <- simulate_returns(400, phi = 0.95, sigma = 0.3, beta = 0.7)

grid <- c(0.85, 0.90, 0.95, 0.98)
fits <- lapply(grid, function(phi) particle_filter(market$y, 20000, phi, 0.3, 0.7))
names(fits) <- grid
print(round(sapply(fits, function(fit) fit$log_likelihood), 3))

best <- fits[[which.max(sapply(fits, function(fit) fit$log_likelihood))]]
mean_path <- colMeans(best$history)
band <- apply(best$history, 2, quantile, probs = c(0.05, 0.95))
cat("correlation with the truth:", round(cor(mean_path, market$x), 4), "\n")
cat("covered by the 90 % band:", mean(market$x > band[1, ] & market$x < band[2, ]), "\n")
print(head(data.frame(truth = market$x, filtered = mean_path, low = band[1, ], high = band[2, ]), 10))
