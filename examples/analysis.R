# Four years of hourly air quality at 30 stations: cleaning with an audit trail, a model of ozone, and how
# far the results depend on a few badly calibrated sensors.
#
# Usage: Rscript analysis.R [raw.rds]
#
# Without an argument the raw readings are simulated first, from the seasons and the ozone model of
# R's own `airquality` data set (New York, 1973), written to a file and read back as if a data logger had left
# them there. Base R only.

options(digits = 5, width = 100)
set.seed(1973)

hours_per_day <- 24L
days <- 4L * 365L
stations <- sprintf("S%02d", 1:30)
hours <- days * hours_per_day

## ---- The raw readings -------------------------------------------------------------------------------

# A sensor now and then fails for some hours or days: each row is one such episode.
episodes <- function(n, mean_hours) {
  data.frame(station = sample(length(stations), n, replace = TRUE),
             start = sample(hours, n, replace = TRUE),
             length = 1L + rgeom(n, 1 / mean_hours))
}

# Row numbers of an episode. Rows are sorted by station, then by time.
rows_of <- function(episode) {
  last <- min(episode$start + episode$length - 1L, hours)
  (episode$station - 1L) * hours + episode$start:last
}
all_rows <- function(list_of_episodes) {
  unlist(lapply(seq_len(nrow(list_of_episodes)), function(i) rows_of(list_of_episodes[i, ])))
}

simulate_readings <- function(file) {
  season <- lm(Temp ~ cos(2 * pi * Month / 12) + sin(2 * pi * Month / 12), airquality)
  ozone <- lm(log(Ozone) ~ Temp + Wind + Solar.R, airquality)
  hour <- seq_len(hours)
  month <- (hour / hours_per_day / 365 * 12) %% 12
  daily <- sin(2 * pi * (hour %% hours_per_day - 9) / hours_per_day)
  climate <- unname(predict(season, data.frame(Month = month)))
  n <- length(stations) * hours
  noise <- function(sd) rnorm(n, sd = sd)
  weather <- function(sd) rep(rnorm(n / hours_per_day, sd = sd), each = hours_per_day)
  site <- function(sd) rep(rnorm(length(stations), sd = sd), each = hours)

  readings <- list()
  readings$temperature_f <- climate + 6 * daily + site(2) + weather(5) + noise(2)
  readings$wind_mph <- abs(9.9 + site(1) + weather(2.5) + noise(2))
  readings$solar_langley <- pmax(0, 186 * (daily > 0) + noise(60))
  effect <- coef(ozone)
  readings$ozone_ppb <- exp(effect[["(Intercept)"]] + effect[["Temp"]] * readings$temperature_f +
                              effect[["Wind"]] * readings$wind_mph +
                              effect[["Solar.R"]] * readings$solar_langley + weather(0.4) + noise(0.2))
  readings$pressure_hpa <- 1013 + site(3) + noise(6)
  readings$humidity <- pmin(100, pmax(5, 65 - 15 * daily + noise(12)))
  readings$no2_ppb <- abs(22 + 6 * daily + site(4) + noise(7))
  readings$so2_ppb <- abs(3 + site(1) + noise(1.5))
  readings$co_ppm <- abs(0.6 + site(0.1) + noise(0.2))
  readings$pm10 <- abs(28 + site(5) + noise(9))
  readings$pm25 <- 0.55 * readings$pm10 + abs(noise(3))
  readings$noise_db <- 52 + 6 * daily + site(4) + noise(3)

  # The logger writes -999 when it has no reading, and some sensors spike before they fail.
  for (sensor in names(readings)) {
    spikes <- all_rows(episodes(25, 5))
    readings[[sensor]][spikes] <- readings[[sensor]][spikes] * 40
    readings[[sensor]][all_rows(episodes(60, 30))] <- -999
  }
  saveRDS(as.data.frame(readings), file, compress = FALSE)
}

arguments <- commandArgs(trailingOnly = TRUE)
file <- if (length(arguments)) arguments[1] else file.path(tempdir(), "raw.rds")
if (!file.exists(file)) {
  simulate_readings(file)
  invisible(gc())
}
data <- readRDS(file)
station <- rep(seq_along(stations), each = hours)
cat(sprintf("Read %d rows of %d sensors at %d stations (%.0f MB)\n\n", nrow(data), ncol(data),
            length(stations), as.numeric(object.size(data)) / 1e6))

## ---- Cleaning, one step at a time, every version kept for the audit ---------------------------------

versions <- list(raw = data)
keep <- function(step) versions[[step]] <<- data

# 1. No reading is NA, not -999.
for (sensor in names(data)) {
  data[[sensor]][data[[sensor]] == -999] <- NA
}
keep("missing marked")

# 2. Winsorise what no working sensor reports: beyond six median absolute deviations, or fifteen for ozone,
# whose distribution has a long tail of its own.
for (sensor in names(data)) {
  tolerance <- if (sensor == "ozone_ppb") 15 else 6
  x <- data[[sensor]][seq(1, nrow(data), by = 50)]
  limits <- median(x, na.rm = TRUE) + c(-1, 1) * tolerance * mad(x, na.rm = TRUE)
  data[[sensor]][which(data[[sensor]] > limits[2])] <- limits[2]
  data[[sensor]][which(data[[sensor]] < limits[1])] <- limits[1]
}
keep("spikes winsorised")

# 3. Fill gaps with the sensor's own mean at that station and hour of day.
hour_of_day <- rep(seq_len(hours) %% hours_per_day, length(stations))
for (sensor in names(data)) {
  gaps <- which(is.na(data[[sensor]]))
  for (s in unique(station[gaps])) {
    here <- gaps[station[gaps] == s]
    own <- ((s - 1L) * hours + 1L):(s * hours)
    profile <- vapply(split(data[[sensor]][own], hour_of_day[own]), mean, 0, na.rm = TRUE)
    data[[sensor]][here] <- profile[hour_of_day[here] + 1L]
  }
}
keep("gaps filled")

# 4. Units: the American ones of the older loggers become SI.
data$temperature_f <- (data$temperature_f - 32) / 1.8
data$wind_mph <- data$wind_mph * 0.44704
names(data)[match(c("temperature_f", "wind_mph"), names(data))] <- c("temperature_c", "wind_ms")
keep("units converted")

# 5. Field notes: three analysers drifted for a season and were corrected afterwards.
drifts <- data.frame(sensor = c("ozone_ppb", "no2_ppb", "pm10"), station = c(7, 12, 25),
                     from_day = c(400, 900, 1200), days = c(90, 60, 45), factor = c(1.08, 0.94, 1.15))
for (i in seq_len(nrow(drifts))) {
  drift <- drifts[i, ]
  rows <- rows_of(data.frame(station = drift$station, start = drift$from_day * hours_per_day,
                             length = drift$days * hours_per_day))
  data[[drift$sensor]][rows] <- data[[drift$sensor]][rows] / drift$factor
}
keep("drift corrected")

cat("Audit: cells changed by each step\n")
audit <- sapply(seq_along(versions)[-1], function(v) {
  mapply(function(before, after) {
    sum(before != after, na.rm = TRUE) + sum(is.na(before) != is.na(after))
  }, versions[[v - 1]], versions[[v]])
})
dimnames(audit) <- list(names(versions[[1]]), names(versions)[-1])
print(audit)

## ---- Model: daily ozone and days above the limit ----------------------------------------------------

daily <- as.data.frame(lapply(data, .colMeans, m = hours_per_day, n = length(stations) * days))
daily$station <- factor(stations[rep(seq_along(stations), each = days)])
daily$day <- rep(seq_len(days), length(stations))

fit <- lm(log(ozone_ppb) ~ temperature_c + wind_ms + solar_langley + no2_ppb + station, daily)
cat("\nDaily ozone, log scale\n")
print(summary(fit)$coefficients[1:5, ])
warm_season <- daily[daily$day %% 365 %in% 120:300, ]
limit <- quantile(warm_season$ozone_ppb, 0.9)
exceeds <- glm(ozone_ppb > limit ~ temperature_c + wind_ms + humidity, binomial, warm_season)
cat(sprintf("\nDays above %.1f ppb in the warm season, logistic regression\n", limit))
print(summary(exceeds)$coefficients)

## ---- How much do the results hang on calibration? ---------------------------------------------------

# In each scenario five stretches of the ozone record are off by up to a third. All scenarios are
# kept: the envelope below needs every one of them at every hour.
scenarios <- lapply(1:40, function(i) {
  ozone <- data$ozone_ppb
  wrong <- episodes(5, 24 * 30)
  for (j in seq_len(nrow(wrong))) {
    rows <- rows_of(wrong[j, ])
    ozone[rows] <- ozone[rows] * runif(1, 2 / 3, 4 / 3)
  }
  ozone
})
means <- sapply(scenarios, .colMeans, m = hours, n = length(stations))
summer <- which(seq_len(hours) %/% hours_per_day %% 365 %in% 172:264)
envelope <- t(sapply(seq_along(stations), function(s) {
  rows <- (s - 1L) * hours + summer
  above <- sapply(scenarios, function(ozone) sum(ozone[rows] > limit))
  c(mean = mean(means[s, ]), lowest = min(means[s, ]), highest = max(means[s, ]),
    summer_hours_above = mean(above), fewest = min(above), most = max(above))
}))
rownames(envelope) <- stations
cat(sprintf("\nOzone (ppb) over 40 calibration scenarios: means, and summer hours above %.1f\n", limit))
print(head(envelope[order(envelope[, "fewest"] - envelope[, "most"]), ], 8))

# Week-block bootstrap of the temperature effect.
blocks <- split(seq_len(nrow(daily)), (daily$day - 1L) %/% 7L)
design <- cbind(1, as.matrix(daily[c("temperature_c", "wind_ms", "solar_langley")]))
response <- log(daily$ozone_ppb)
effect <- replicate(60, {
  rows <- unlist(blocks[sample(length(blocks), replace = TRUE)], use.names = FALSE)
  x <- design[rows, ]
  solve(crossprod(x), crossprod(x, response[rows]))[2]
})
cat(sprintf("\nTemperature effect on log ozone: %.4f per degree, 95 %% interval %.4f to %.4f (60 resamples)\n",
            mean(effect), quantile(effect, 0.025), quantile(effect, 0.975)))
cat(sprintf("Versions kept: %d, scenarios kept: %d\n", length(versions), length(scenarios)))
