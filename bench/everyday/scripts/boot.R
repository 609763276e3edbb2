# Bootstrap intervals for a logistic regression and for a difference of medians.
library(boot)
set.seed(42)

n <- 15000
patients <- data.frame(
  age = round(rnorm(n, 55, 12)),
  bmi = rnorm(n, 27, 4),
  smoker = factor(sample(c("never", "former", "current"), n, replace = TRUE, prob = c(.5, .3, .2))),
  treated = rbinom(n, 1, .5)
)
risk <- with(patients, -6 + .05 * age + .06 * bmi + .5 * (smoker == "current") - .4 * treated)
patients$event <- rbinom(n, 1, plogis(risk))
patients$cost <- with(patients, exp(7 + .01 * age + .6 * event + rnorm(n, 0, .8)))

coefficients_of <- function(data, indices) {
  fit <- glm(event ~ age + bmi + smoker + treated, family = binomial, data = data[indices, ])
  coef(fit)
}
glm_boot <- boot(patients, coefficients_of, R = 100)
print(glm_boot)
for (i in seq_along(glm_boot$t0)) {
  interval <- boot.ci(glm_boot, type = "perc", index = i)$percent[4:5]
  cat(sprintf("%-16s %8.4f [%8.4f, %8.4f]\n", names(glm_boot$t0)[i], glm_boot$t0[i], interval[1], interval[2]))
}

difference <- function(data, indices) {
  sampled <- data[indices, ]
  median(sampled$cost[sampled$treated == 1]) - median(sampled$cost[sampled$treated == 0])
}
cost_boot <- boot(patients, difference, R = 400, strata = patients$treated)
print(boot.ci(cost_boot, type = c("norm", "basic", "perc")))
