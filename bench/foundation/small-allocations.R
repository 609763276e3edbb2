# 10,000 small allocations at a time and no large one: lists of short vectors, strings and environments.
set.seed(25)
total <- 0
for (round in 1:50) {
  items <- lapply(1:10000, function(i) list(id = i, name = paste0("item", i %% 100L), value = c(i, i / 2)))
  total <- total + sum(vapply(items, function(item) item$value[2], 0)) + nchar(items[[round]]$name)
}
cat(total, "\n")
