library(testthat)
library(pagewise)

test_check("pagewise")
