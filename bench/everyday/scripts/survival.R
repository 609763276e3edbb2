# Time to relapse: curves, Cox models with splines and strata, checks, and a validated risk score.
library(survival)
set.seed(19)

n <- 25000
patients <- data.frame(id = seq_len(n), age = rnorm(n, 60, 10), female = rbinom(n, 1, .45), stage = factor(sample(1:4, n, replace = TRUE, prob = 4:1)),
                       centre = factor(sample(1:25, n, replace = TRUE)), drug = rbinom(n, 1, .5), marker = rgamma(n, 2, 1))
hazard <- with(patients, .03 * exp(.03 * (age - 60) + .5 * (as.integer(stage) - 1) - .35 * drug + .2 * marker + rnorm(25, 0, .2)[centre]))
event <- rexp(n, hazard)
censored <- runif(n, 0, 25)
patients$time <- round(pmin(event, censored), 3) + .001
patients$relapse <- as.integer(event <= censored)

curves <- survfit(Surv(time, relapse) ~ drug + stage, data = patients)
print(curves)
print(summary(curves, times = c(1, 5, 10))$surv)
print(survdiff(Surv(time, relapse) ~ drug + strata(stage), data = patients))

model <- coxph(Surv(time, relapse) ~ drug * stage + female + pspline(age, df = 3) + marker + strata(centre), data = patients)
print(model)
simple <- coxph(Surv(time, relapse) ~ drug + stage + female + age + marker, data = patients)
print(summary(simple))
print(cox.zph(simple))
print(round(quantile(resid(simple, type = "deviance")), 4))
print(round(head(resid(simple, type = "dfbeta")), 6))

folds <- sample(rep(1:5, length.out = n))
agreement <- sapply(1:5, function(k) {
  fit <- coxph(Surv(time, relapse) ~ drug + stage + female + age + marker, data = patients[folds != k, ])
  held_out <- patients[folds == k, ]
  held_out$score <- predict(fit, held_out)
  concordance(Surv(time, relapse) ~ score, data = held_out, reverse = TRUE)$concordance
})
print(round(agreement, 4))

periods <- survSplit(Surv(time, relapse) ~ ., data = patients, cut = 1:15, episode = "year")
print(coxph(Surv(tstart, time, relapse) ~ drug + drug:pmin(year, 5) + stage + age, data = periods))
print(coef(summary(glm(relapse ~ factor(year) + drug + stage + age + offset(log(time - tstart)), family = poisson, data = periods)))[17:21, ])
risk <- survfit(simple, newdata = patients[1:400, ])
print(round(summary(risk, times = 5)$surv[1:10], 4))
