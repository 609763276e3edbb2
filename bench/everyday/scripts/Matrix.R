# Sparse matrices: heat on a plate by a Laplacian, ranks of web pages, and items that are rated alike.
library(Matrix)
set.seed(30)

# Steady heat on a plate: a sparse system that is solved for several sources.
side <- 250
difference <- bandSparse(side, k = c(-1, 0, 1), diagonals = list(rep(-1, side), rep(2, side), rep(-1, side)))
laplacian <- kronecker(Diagonal(side), difference) + kronecker(difference, Diagonal(side))
factor <- Cholesky(forceSymmetric(laplacian), LDL = FALSE)
sources <- sparseMatrix(i = sample(side^2, 20), j = 1:20, x = 1, dims = c(side^2, 20))
heat <- solve(factor, sources)
cat("heat at the sources:", signif(sort(as.vector(heat)[as.vector(sources) > 0], decreasing = TRUE)[1:6], 6), "\n")
cat("residual is small:", max(abs(laplacian %*% heat - sources)) < 1e-8, "\n")

# Page rank by power iteration.
pages <- 100000
links <- sparseMatrix(i = sample(pages, 1e6, TRUE, prob = (1:pages)^-.8), j = sample(pages, 1e6, TRUE), x = 1, dims = c(pages, pages))
out <- colSums(links)
step <- links %*% Diagonal(x = ifelse(out > 0, 1 / out, 0))
rank <- rep(1 / pages, pages)
for (i in 1:40) {
  rank <- as.vector(.85 * (step %*% rank))
  rank <- rank + (1 - sum(rank)) / pages
}
print(data.frame(page = order(-rank)[1:10], rank = signif(sort(rank, decreasing = TRUE)[1:10], 5)))

# Items that the same users rate.
users <- 30000
items <- 2500
ratings <- sparseMatrix(i = sample(users, 1.2e6, TRUE), j = sample(items, 1.2e6, TRUE, prob = (1:items)^-.5), x = sample(1:5, 1.2e6, TRUE),
                        dims = c(users, items), use.last.ij = TRUE)
centred <- ratings
centred@x <- centred@x - rep(colSums(ratings) / diff(ratings@p), diff(ratings@p))
norms <- sqrt(colSums(centred^2))
similarity <- crossprod(centred %*% Diagonal(x = 1 / norms))
diag(similarity) <- 0
nearest <- apply(similarity[, 1:200], 2, which.max)
print(head(data.frame(item = 1:200, nearest = nearest, similarity = signif(similarity[cbind(nearest, 1:200)], 5)), 10))
cat("filled:", signif(nnzero(similarity) / length(similarity), 5), "\n")
