# Air quality by weather, season and place: smooth effects, their interactions, and a map.
library(mgcv)
set.seed(17)

n <- 12000
air <- data.frame(day = runif(n, 0, 365), temperature = rnorm(n, 12, 8), wind = rgamma(n, 3, 1), lon = runif(n), lat = runif(n),
                  station = factor(sample(sprintf("s%02d", 1:30), n, replace = TRUE)))
truth <- with(air, 3 + .4 * cos(2 * pi * day / 365) - .25 * log1p(wind) + .0015 * (temperature - 12)^2 +
  .5 * exp(-8 * ((lon - .3)^2 + (lat - .6)^2)))
air$ozone <- rpois(n, exp(truth + rnorm(30, 0, .15)[air$station]))

simple <- gam(ozone ~ s(day, bs = "cc") + s(temperature) + s(wind), family = poisson, data = air, method = "REML")
full <- bam(ozone ~ s(day, bs = "cc", k = 12) + te(temperature, wind, k = 6) + s(lon, lat, k = 60) + s(station, bs = "re"),
            family = poisson, data = air, discrete = FALSE)
print(summary(simple))
print(summary(full))
print(AIC(simple, full))
print(round(concurvity(full, full = TRUE), 3))

map <- expand.grid(lon = seq(0, 1, length.out = 80), lat = seq(0, 1, length.out = 80))
map <- cbind(map, day = 180, temperature = 15, wind = 2, station = "s01")
predicted <- predict(full, map, type = "terms", se.fit = TRUE)
surface <- predicted$fit[, "s(lon,lat)"]
print(map[which.max(surface), c("lon", "lat")])
print(round(quantile(surface), 4))

folds <- sample(rep(1:3, length.out = n))
errors <- sapply(1:3, function(k) {
  fit <- bam(ozone ~ s(day, bs = "cc") + s(temperature) + s(wind) + s(lon, lat, k = 40), family = poisson, data = air[folds != k, ], discrete = TRUE)
  held_out <- air[folds == k, ]
  mean((held_out$ozone - predict(fit, held_out, type = "response"))^2)
})
print(round(errors, 4))
