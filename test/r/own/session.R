# What a session does around its vectors: files, serialisation, connections, system commands, errors.
set.seed(8)
x <- runif(2e6)
d <- data.frame(a = x, b = rev(x), g = rep(letters[1:20], 1e5))
file <- tempfile()
saveRDS(d, file, compress = FALSE)
e <- readRDS(file)
e$a[3] <- 0
cat(identical(d$b, e$b), d$a[3] != 0, "\n")
s <- serialize(d, NULL)
t <- s
t[length(t)] <- as.raw(0)
cat(identical(unserialize(s), d), length(s), "\n")
con <- file(file, "wb")
writeBin(x, con)
close(con)
y <- readBin(file, "double", 2e6)
z <- y
z[2] <- 5
con <- file(file, "rb")
first <- readBin(con, "raw", 1e7)
close(con)
cat(identical(x, y), z[2], sum(as.integer(first)), "\n")
cat(system("echo from a shell; exit 3"), system2("sort", input = c("b", "a"), stdout = TRUE), "\n")
r <- tryCatch({
  x[1e5] <- "text"
  stop("after coercion")
}, error = conditionMessage)
cat(r, class(x), length(unique(x)) > 1e6, "\n")
big <- tryCatch(numeric(2^45), error = function(e) "refused as it should be")
cat(if (is.character(big)) big else length(big), "\n")
agg <- aggregate(a ~ g, d, mean)
cat(format(agg$a, digits = 10), fill = 90)
o <- order(d$a)
cat(o[1:5], is.unsorted(d$a[o]), "\n")
for (i in 1:200) {
  v <- c(d$a[1:(i * 100)], d$b[1:2e4])
  length(v) <- i * 3000
}
cat(sum(v, na.rm = TRUE) > 0, length(v), "\n")
