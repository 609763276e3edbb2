# A survey with gaps: how they are distributed, multiple imputation, and pooled regressions.
library(mice)
set.seed(77)

n <- 6000
survey <- data.frame(age = round(runif(n, 18, 85)))
survey$education <- factor(sample(c("low", "middle", "high"), n, replace = TRUE), levels = c("low", "middle", "high"))
survey$female <- rbinom(n, 1, .5)
survey$income <- round(exp(9.5 + .2 * as.integer(survey$education) + .004 * survey$age + rnorm(n, 0, .5)))
survey$bmi <- round(24 + .05 * survey$age - .4 * as.integer(survey$education) + rnorm(n, 0, 3), 1)
survey$pressure <- round(100 + .4 * survey$age + .8 * survey$bmi + rnorm(n, 0, 9))
survey$smoker <- factor(ifelse(runif(n) < plogis(-.5 - .3 * as.integer(survey$education)), "yes", "no"))
complete_fit <- lm(pressure ~ age + bmi + education + smoker, data = survey)

gaps <- survey
gaps$income[runif(n) < plogis(-2 + .03 * (gaps$age - 50))] <- NA
gaps$bmi[runif(n) < .2] <- NA
gaps$smoker[runif(n) < .12] <- NA
gaps$education[runif(n) < .08] <- NA
gaps$pressure[runif(n) < .1] <- NA
print(md.pattern(gaps, plot = FALSE)[c(1:5), ])
print(round(colMeans(is.na(gaps)), 3))

imputed <- mice(gaps, m = 5, maxit = 6, seed = 500, printFlag = FALSE)
print(imputed$method)
print(summary(complete(imputed, 1)))

fits <- with(imputed, lm(pressure ~ age + bmi + education + smoker))
pooled <- pool(fits)
print(summary(pooled, conf.int = TRUE))
print(round(cbind(before = coef(complete_fit), imputed = pooled$pooled$estimate, listwise = coef(lm(formula(complete_fit), data = gaps))), 4))

smoking <- with(imputed, glm(I(smoker == "yes") ~ age + education + log(income), family = binomial))
print(summary(pool(smoking)))
all_rows <- complete(imputed, "long")
print(aggregate(cbind(income, bmi) ~ .imp + education, data = all_rows, FUN = mean))
