# A threaded BLAS on shared vectors.
blas <- sub(".*/", "", dirname(extSoftVersion()[["BLAS"]]))
if (!grepl("openblas", extSoftVersion()[["BLAS"]])) stop("not OpenBLAS but ", extSoftVersion()[["BLAS"]])
set.seed(7)
n <- 900
a <- matrix(rnorm(n * n), n)
versions <- list()
for (i in 1:6) {
  b <- a
  b[i, ] <- i
  versions[[i]] <- crossprod(b, a)
  a[i, i] <- a[i, i] + 1
  versions[[i + 6]] <- solve(a, b[, 1:10])
}
q <- qr(a)
s <- svd(a[, 1:100])
cat(blas, "\n")
cat(format(vapply(versions, function(v) sum(abs(v)), 0), digits = 7), fill = 90)
cat(format(c(sum(abs(qr.R(q))), sum(s$d), sum(a)), digits = 7), "\n")
