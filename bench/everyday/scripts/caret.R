# Which classifier? Three of them tuned by repeated cross-validation and compared on held-out data.
library(caret)
set.seed(7)

data <- twoClassSim(2000, linearVars = 8, noiseVars = 10)
in_train <- createDataPartition(data$Class, p = .75, list = FALSE)
training <- data[in_train, ]
testing <- data[-in_train, ]

control <- trainControl(method = "repeatedcv", number = 5, repeats = 2, classProbs = TRUE, summaryFunction = twoClassSummary)

fit_with <- function(method, ...) {
  set.seed(11)
  train(Class ~ ., data = training, method = method, metric = "ROC", trControl = control, preProcess = c("center", "scale"), ...)
}
models <- list(
  tree = fit_with("rpart", tuneLength = 6),
  neighbours = fit_with("knn", tuneLength = 5),
  forest = fit_with("rf", tuneGrid = data.frame(mtry = c(3, 8)), ntree = 80)
)
for (name in names(models)) {
  cat("\n==", name, "\n")
  print(models[[name]]$results)
}

resampled <- resamples(models)
print(summary(resampled))
print(summary(diff(resampled)))

for (name in names(models)) {
  cat("\n==", name, "on the test set\n")
  print(confusionMatrix(predict(models[[name]], testing), testing$Class)$overall)
}
print(varImp(models$forest))
