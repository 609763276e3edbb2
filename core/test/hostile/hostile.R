# SPDX-License-Identifier: MIT
#
# The hostile program inside R, as a package's C code: Rscript hostile.R LIBRARY STEPS WORDS...
# Between its steps R makes, copies and changes vectors of its own, and collects.

chunk <- 500
kept <- list()
expected <- numeric()

# A vector whose sum is known, and what it was copied from.
change <- function(at) {
  n <- 1000 + (at * 7919) %% 60000
  plain <- rep(as.numeric(at), n)
  copy <- plain
  copy[n %/% 2] <- 0
  stopifnot(sum(plain) == at * n, sum(copy) == at * (n - 1))
  place <- at %/% chunk %% 12 + 1
  kept[[place]] <<- copy
  expected[place] <<- at * (n - 1)
}

check <- function() {
  for (i in seq_along(kept)) stopifnot(is.null(kept[[i]]) || sum(kept[[i]]) == expected[i])
}

main <- function(library_path, steps, words) {
  dyn.load(library_path)
  .C("hostile_begin", words, length(words))
  for (at in seq(0, steps - 1, by = chunk)) {
    .C("hostile_steps", as.numeric(at), chunk)
    change(at)
    if (at %% (8 * chunk) == 0) {
      gc()
      check()
    }
  }
  .C("hostile_end")
  check()
  quit(save = "no") # not back to this file, whose descriptor may be gone
}

words <- commandArgs(TRUE)
main(words[1], as.numeric(words[2]), c("hostile", words[-(1:2)]))
