# Differential expression of a simulated RNA-seq experiment: two treatments, two batches, a control.
library(edgeR)
set.seed(100)

genes <- 15000
samples <- data.frame(
  group = factor(rep(c("control", "drugA", "drugB"), each = 8), levels = c("control", "drugA", "drugB")),
  batch = factor(rep(c("one", "two"), 12))
)
base <- rgamma(genes, shape = .6, scale = 150)
effect <- matrix(0, genes, 3)
effect[1:600, 2] <- rnorm(600, 0, 1.2)
effect[301:900, 3] <- rnorm(600, 0, 1.2)
dispersion <- .05 + 1 / rgamma(genes, 5, 1)
counts <- sapply(seq_len(nrow(samples)), function(i) {
  mu <- base * 2^effect[, as.integer(samples$group)[i]] * runif(1, .7, 1.4) * ifelse(samples$batch[i] == "two", 1.1, 1)
  rnbinom(genes, mu = mu, size = 1 / dispersion)
})
dimnames(counts) <- list(sprintf("gene%05d", seq_len(genes)), sprintf("sample%02d", seq_len(ncol(counts))))

y <- DGEList(counts = counts, group = samples$group)
keep <- filterByExpr(y)
y <- calcNormFactors(y[keep, , keep.lib.sizes = FALSE])
print(table(keep))
print(head(y$samples))

design <- model.matrix(~ batch + group, samples)
y <- estimateDisp(y, design, robust = TRUE)
cat("common dispersion:", signif(y$common.dispersion, 5), "\n")

fit <- glmQLFit(y, design, robust = TRUE)
for (coefficient in c("groupdrugA", "groupdrugB")) {
  test <- glmQLFTest(fit, coef = coefficient)
  print(topTags(test, n = 10))
  print(summary(decideTests(test)))
}
treat <- glmTreat(fit, coef = "groupdrugA", lfc = log2(1.2))
print(topTags(treat, n = 10))

lrt <- glmLRT(glmFit(y, design), coef = c("groupdrugA", "groupdrugB"))
print(topTags(lrt, n = 10))

logcpm <- cpm(y, log = TRUE)
print(round(cor(logcpm[, 1:6]), 4))
sets <- split(sample(rownames(y)), rep(1:100, length.out = nrow(y)))
print(head(camera(logcpm, ids2indices(sets, rownames(y)), design), 5))
