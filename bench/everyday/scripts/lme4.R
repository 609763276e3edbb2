# Reading scores of pupils in classes in schools, over four years: growth, and what differs between schools.
library(lme4)
set.seed(21)
options(digits = 5)

schools <- 80
classes <- 4
pupils <- 15
data <- expand.grid(year = 0:3, pupil = seq_len(pupils), class = seq_len(classes), school = seq_len(schools))
data$class <- with(data, interaction(school, class, drop = TRUE))
data$pupil <- with(data, interaction(class, pupil, drop = TRUE))
data$school <- factor(data$school)
data$urban <- rbinom(schools, 1, .5)[data$school]
data$ses <- rnorm(nlevels(data$pupil))[data$pupil]
data$score <- with(data, 50 + 4 * year + 2 * ses - urban + rnorm(schools, 0, 3)[school] + rnorm(schools, 0, .7)[school] * year +
  rnorm(nlevels(class), 0, 2)[class] + rnorm(nlevels(pupil), 0, 4)[pupil] + rnorm(nrow(data), 0, 3))
data$passed <- rbinom(nrow(data), 1, plogis((data$score - 55) / 5))

growth <- lmer(score ~ year * ses + urban + (year | school) + (1 | class) + (1 | pupil), data = data)
print(round(coef(summary(growth))[, 1:2], 2))
print(round(as.data.frame(VarCorr(growth))$sdcor, 1))

without_slope <- lmer(score ~ year * ses + urban + (1 | school) + (1 | class) + (1 | pupil), data = data)
print(anova(growth, without_slope))

effects <- ranef(growth)$school
print(round(head(effects[order(-effects$year), ], 5), 2))
print(round(cor(effects), 2))

passing <- glmer(passed ~ year + ses + urban + (1 | school) + (1 | class), data = data, family = binomial, nAGQ = 0)
print(round(coef(summary(passing))[, 1:2], 2))
print(round(as.data.frame(VarCorr(passing))$sdcor, 1))

growth_of <- function(fit) c(year = fixef(fit)[["year"]], school = sqrt(VarCorr(fit)$school[2, 2]), residual = sigma(fit))
simulated <- bootMer(growth, growth_of, nsim = 4, seed = 4)
print(round(apply(simulated$t, 2, range), 2))
