# Every way R copies a large vector; the copy and its original must not see each other's writes.
set.seed(4)
check <- function(what, ok) cat(if (isTRUE(ok)) "ok" else "NOT OK", what, "\n")
n <- 3e6
x <- runif(n)
sum_x <- sum(x)
at <- sample(n, 1000)

for (type in c("double", "integer", "logical", "complex", "raw")) {
  a <- as.vector(x[1:1e6] * 200, "double")
  storage.mode(a) <- type
  before <- a[1:50]
  b <- a
  b[1:25] <- rev(a[26:50])
  check(paste(type, "assignment"), identical(a[1:50], before) && identical(b[26:1e6], a[26:1e6]))
}

f <- function(v) {
  v[at] <- 0
  v
}
y <- f(x)
check("modified argument", sum(x) == sum_x && all(y[at] == 0) && identical(y[-at], x[-at]))

chain <- list(x)
for (i in 1:20) {
  x[at[i]] <- i
  chain[[i + 1]] <- x
}
check("chain of versions", all(vapply(1:20, function(i) {
  sum(chain[[i]] != chain[[i + 1]]) == 1 && chain[[i + 1]][at[i]] == i
}, NA)))

d <- data.frame(a = runif(n), b = runif(n), c = seq_len(n))
keep <- d
d$a[1:10] <- NA
d[["b"]][n] <- -1
d$c[at] <- 0L
check("data frame columns", sum(is.na(d$a)) == 10 && !anyNA(keep$a) && keep$b[n] >= 0 &&
        identical(keep$c, seq_len(n)) && sum(d$c == 0L) == length(at))

m <- matrix(runif(n), ncol = 1000)
k <- m
dim(k) <- NULL
k[7] <- 99
m[, 3] <- 0
check("matrix", m[7] != 99 && k[7] == 99 && all(m[, 3] == 0) && any(k[6001:9000] != 0))

l <- as.list(1:1e6)
l2 <- l
l2[[5]] <- "five"
check("list", l[[5]] == 5L && l2[[5]] == "five")
s <- as.character(1:1e6)
s2 <- s
s2[9] <- "nine"
check("character", s[9] == "9" && s2[9] == "nine" && identical(s[-9], s2[-9]))

longer <- chain[[1]]
length(longer) <- n + 1e6
shorter <- longer
length(shorter) <- n / 2
check("length", is.na(longer[n + 1]) && identical(shorter, chain[[1]][1:(n / 2)]))

# The copy is overwritten as a whole, the original is overwritten as a whole, either is dropped first.
a <- runif(n); b <- a; b[1] <- 0; b[] <- 1; check("overwritten copy", all(b == 1) && !any(a == 1))
a <- runif(n); b <- a; s <- sum(b); a[1] <- 0; a[] <- 1; check("overwritten original", all(a == 1) && sum(b) == s)
for (i in 1:30) {
  b <- a
  b[i * 1000] <- -1
  if (i %% 2) rm(a) else rm(b)
  if (i %% 2) a <- b
  if (i %% 10 == 0) invisible(gc())
}
check("dropped in turns", sum(a == -1) == 15)
cat(format(sum(chain[[21]]), digits = 15), "\n")
