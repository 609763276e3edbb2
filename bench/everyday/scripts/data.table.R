# A year of taxi trips: clean, join with zones and weather, summarise by hour, find each driver's gaps.
library(data.table)
set.seed(1)

n <- 3e6
trips <- data.table(
  id = seq_len(n),
  driver = sample(8000L, n, replace = TRUE),
  zone = sample(260L, n, replace = TRUE, prob = (1:260)^-0.7),
  start = as.POSIXct("2023-01-01", tz = "UTC") + round(runif(n, 0, 365 * 86400)),
  distance = round(rexp(n, 1 / 4), 2),
  passengers = sample(1:6, n, replace = TRUE, prob = c(.6, .2, .1, .05, .03, .02))
)
trips[, fare := round(3 + 2.2 * distance + rnorm(n), 2)]
trips[sample(n, n / 50), fare := NA]
zones <- data.table(zone = 1:260, borough = sample(c("Bronx", "Brooklyn", "Manhattan", "Queens"), 260, replace = TRUE))
weather <- data.table(day = as.IDate("2023-01-01") + 0:364, rain = round(pmax(0, rnorm(365, -1, 4)), 1))

trips <- trips[!is.na(fare) & fare > 0]
trips[, `:=`(day = as.IDate(start), hour = hour(start))]
trips <- zones[trips, on = "zone"]
trips <- merge(trips, weather, by = "day")

print(trips[, .(trips = .N, revenue = sum(fare), mean_distance = mean(distance)), keyby = borough])
by_hour <- trips[, .(trips = .N, fare = mean(fare), q90 = quantile(fare, .9)), keyby = .(borough, hour)]
print(dcast(by_hour, hour ~ borough, value.var = "trips"))
print(trips[, .(trips = .N, tip = mean(fare)), keyby = .(wet = rain > 1, passengers)])

setorder(trips, driver, start)
trips[, gap := as.numeric(difftime(start, shift(start), units = "hours")), by = driver]
busiest <- trips[, .(trips = .N, median_gap = median(gap, na.rm = TRUE), longest = max(gap, na.rm = TRUE)), by = driver]
print(busiest[order(-trips, driver)][1:10])

daily <- trips[, .(revenue = sum(fare)), keyby = .(driver, day)]
daily[, week := frollmean(revenue, 7), by = driver]
print(daily[!is.na(week), .(best_week = max(week)), by = driver][order(-best_week)][1:10])
print(trips[, lapply(.SD, mean), keyby = .(month = month(start)), .SDcols = c("distance", "fare", "rain")])
