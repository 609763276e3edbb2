# Three learners that Debian has no package for, written as an analyst would in plain R, and registered with mlr.
# They stand in for the packages ada, kknn and klaR; they are not these packages, and the means in the report are
# given without them as well.

learner <- function(class, name, parameters) {
  makeRLearnerClassif(cl = class, package = character(), par.set = parameters, name = name,
    short.name = sub("^classif\\.", "", class), properties = c("twoclass", "numerics"))
}
features_of <- function(.task, .subset) as.matrix(getTaskData(.task, .subset, target.extra = TRUE)$data)
# Not getTaskTargets(.task)[.subset]: mlr passes NULL for all of a task.
targets_of <- function(.task, .subset) getTaskData(.task, .subset, target.extra = TRUE)$target

# Discrete AdaBoost over rpart stumps (Freund and Schapire 1997).

makeRLearner.classif.boosted_stumps <- function() {
  learner("classif.boosted_stumps", "Boosted stumps",
    makeParamSet(makeIntegerLearnerParam("iterations", default = 50L, lower = 1L)))
}

trainLearner.classif.boosted_stumps <- function(.learner, .task, .subset, .weights = NULL, iterations = 50, ...) {
  data <- getTaskData(.task, .subset)
  formula <- getTaskFormula(.task)
  truth <- targets_of(.task, .subset)
  environment(formula) <- environment() # rpart looks for the weights there
  weights <- rep(1 / nrow(data), nrow(data))
  stump <- rpart::rpart.control(maxdepth = 1, cp = -1, xval = 0, maxcompete = 0, maxsurrogate = 0)
  stumps <- list()
  votes <- numeric()
  for (i in seq_len(iterations)) {
    fit <- rpart::rpart(formula, data, weights = weights, method = "class", control = stump)
    wrong <- predict(fit, data, type = "class") != truth
    error <- sum(weights[wrong])
    if (error <= 0 || error >= 0.5) break
    vote <- log((1 - error) / error)
    weights[wrong] <- weights[wrong] * exp(vote)
    weights <- weights / sum(weights)
    fit$where <- fit$y <- NULL # as long as the data
    stumps[[i]] <- fit
    votes[i] <- vote
  }
  list(stumps = stumps, votes = votes, levels = levels(truth))
}

predictLearner.classif.boosted_stumps <- function(.learner, .model, .newdata, ...) {
  model <- .model$learner.model
  sum <- numeric(nrow(.newdata))
  for (i in seq_along(model$stumps)) {
    second <- predict(model$stumps[[i]], .newdata, type = "class") == model$levels[2]
    sum <- sum + model$votes[i] * ifelse(second, 1, -1)
  }
  factor(model$levels[(sum > 0) + 1], levels = model$levels)
}

# Weighted k nearest neighbours (Hechenbichler and Schliep 2004): scaled features, Euclidean distance, the distances of the k
# nearest divided by that of the next one, triangular kernel.

makeRLearner.classif.weighted_neighbours <- function() {
  learner("classif.weighted_neighbours", "Kernel-weighted nearest neighbours",
    makeParamSet(makeIntegerLearnerParam("k", default = 7L, lower = 1L)))
}

trainLearner.classif.weighted_neighbours <- function(.learner, .task, .subset, .weights = NULL, k = 7, ...) {
  features <- features_of(.task, .subset)
  deviations <- apply(features, 2, sd)
  list(features = sweep(features, 2, deviations, "/"), deviations = deviations, k = k,
    truth = targets_of(.task, .subset))
}

predictLearner.classif.weighted_neighbours <- function(.learner, .model, .newdata, ...) {
  model <- .model$learner.model
  new <- sweep(as.matrix(.newdata), 2, model$deviations, "/")
  distances <- outer(rowSums(new^2), rowSums(model$features^2), "+") - 2 * tcrossprod(new, model$features)
  distances <- sqrt(pmax(distances, 0))
  levels <- levels(model$truth)
  truth <- as.integer(model$truth)
  classes <- apply(distances, 1, function(row) {
    nearest <- order(row)[seq_len(model$k + 1)]
    scaled <- row[nearest] / (row[nearest[model$k + 1]] + 1e-9)
    votes <- 1 - pmin(scaled[seq_len(model$k)], 1) + 1e-6
    which.max(tapply(votes, factor(truth[nearest[seq_len(model$k)]], seq_along(levels)), sum, default = 0))
  })
  factor(levels[classes], levels = levels)
}

# Regularised discriminant analysis (Friedman 1989): covariances of the classes, shrunk towards the pooled one (lambda) and
# towards a multiple of the identity (gamma); both chosen on a grid by cross-validation within the training set.

makeRLearner.classif.regularised_discriminant <- function() {
  learner("classif.regularised_discriminant", "Regularised discriminant analysis",
    makeParamSet(makeIntegerLearnerParam("grid", default = 5L, lower = 1L),
      makeIntegerLearnerParam("inner_folds", default = 10L, lower = 2L)))
}

class_moments <- function(features, truth) {
  lapply(levels(truth), function(level) {
    own <- features[truth == level, , drop = FALSE]
    centre <- colMeans(own)
    centred <- sweep(own, 2, centre)
    list(centre = centre, scatter = crossprod(centred), count = nrow(own))
  })
}

regularised <- function(moments, lambda, gamma) {
  pooled <- Reduce(`+`, lapply(moments, `[[`, "scatter"))
  total <- sum(vapply(moments, `[[`, 0, "count"))
  lapply(moments, function(class) {
    covariance <- ((1 - lambda) * class$scatter + lambda * pooled) / ((1 - lambda) * class$count + lambda * total)
    covariance <- (1 - gamma) * covariance + gamma * mean(diag(covariance)) * diag(nrow(covariance))
    list(centre = class$centre, root = chol(covariance), prior = class$count / total)
  })
}

discriminant_scores <- function(classes, features) {
  sapply(classes, function(class) {
    standard <- backsolve(class$root, t(sweep(features, 2, class$centre)), transpose = TRUE)
    -0.5 * colSums(standard^2) - sum(log(diag(class$root))) + log(class$prior)
  })
}

trainLearner.classif.regularised_discriminant <- function(.learner, .task, .subset, .weights = NULL, grid = 5,
                                                          inner_folds = 10, ...) {
  features <- features_of(.task, .subset)
  truth <- targets_of(.task, .subset)
  candidates <- expand.grid(lambda = seq(0.05, 0.95, length.out = grid), gamma = seq(0.05, 0.95, length.out = grid))
  errors <- numeric(nrow(candidates))
  fold <- sample(rep_len(seq_len(inner_folds), nrow(features)))
  for (held_out in seq_len(inner_folds)) {
    moments <- class_moments(features[fold != held_out, ], truth[fold != held_out])
    for (i in seq_len(nrow(candidates))) {
      classes <- regularised(moments, candidates$lambda[i], candidates$gamma[i])
      scores <- discriminant_scores(classes, features[fold == held_out, ])
      errors[i] <- errors[i] + sum(max.col(scores, "first") != as.integer(truth[fold == held_out]))
    }
  }
  best <- which.min(errors)
  list(classes = regularised(class_moments(features, truth), candidates$lambda[best], candidates$gamma[best]),
    levels = levels(truth))
}

predictLearner.classif.regularised_discriminant <- function(.learner, .model, .newdata, ...) {
  model <- .model$learner.model
  scores <- discriminant_scores(model$classes, as.matrix(.newdata))
  factor(model$levels[max.col(scores, "first")], levels = model$levels)
}
