test_that("loading the package does nothing until asked", {
  state <- fresh_r("library(pagewise); cat(.Call(pagewise:::pagewise_state))")
  expect_identical(state, "FALSE")
})
