# Copy a 32 MB vector, then overwrite every element of the copy, 60 times.
n <- 4194304L
set.seed(25)
x <- runif(n)
overwrite <- function(y, value) {
  y[] <- value
  y
}
replacement <- x + 1
for (i in 1:60) y <- overwrite(x, replacement)
cat(sum(x), sum(y), "\n")
