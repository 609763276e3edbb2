# Sales of a retailer: tidy a wide table, join, summarise by group, find runs and shares.
library(dplyr)
library(tidyr)
set.seed(3)

stores <- tibble(store = 1:400, region = sample(c("north", "south", "east", "west"), 400, replace = TRUE), area = round(rlnorm(400, 6, .5)))
products <- tibble(product = sprintf("p%03d", 1:60), category = sample(c("food", "drinks", "home", "garden"), 60, replace = TRUE),
                   price = round(rlnorm(60, 2, .6), 2))

wide <- expand_grid(store = stores$store, product = products$product)
weeks <- matrix(rpois(nrow(wide) * 52, 12), nrow(wide), dimnames = list(NULL, sprintf("week_%02d", 1:52)))
weeks[sample(length(weeks), length(weeks) / 40)] <- NA
wide <- bind_cols(wide, as_tibble(weeks))

sales <- wide %>%
  pivot_longer(starts_with("week_"), names_to = "week", names_prefix = "week_", values_to = "units") %>%
  mutate(week = as.integer(week)) %>%
  filter(!is.na(units)) %>%
  left_join(stores, by = "store") %>%
  left_join(products, by = "product") %>%
  mutate(revenue = units * price, quarter = (week - 1) %/% 13 + 1)

sales %>%
  group_by(region, category) %>%
  summarise(revenue = sum(revenue), units = sum(units), stores = n_distinct(store), .groups = "drop") %>%
  mutate(share = revenue / sum(revenue)) %>%
  arrange(desc(revenue)) %>%
  print(n = 16)

trend <- sales %>%
  group_by(store, product) %>%
  arrange(week, .by_group = TRUE) %>%
  summarise(slope = cov(week, units) / var(week), best = max(units), change = last(units) - first(units), .groups = "drop")
print(slice_max(trend, slope, n = 10))

ranked <- sales %>%
  group_by(region, week, product) %>%
  summarise(units = sum(units), .groups = "drop_last") %>%
  mutate(place = min_rank(desc(units)), ahead = units - lead(units, order_by = desc(units))) %>%
  ungroup()
print(count(filter(ranked, place == 1), region, product, sort = TRUE), n = 10)

sales %>%
  group_by(region, quarter, category) %>%
  summarise(per_area = sum(revenue) / sum(unique(area)), .groups = "drop") %>%
  pivot_wider(names_from = quarter, values_from = per_area, names_prefix = "Q") %>%
  print(n = 16)
