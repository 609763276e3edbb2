# Customer letters: clean them, count words, weigh them, group the letters and find what belongs together.
library(tm)
set.seed(14)

syllables <- c("ba", "co", "di", "fu", "ga", "ho", "ki", "lu", "ma", "no", "pe", "ri", "sa", "to", "vu", "za")
word <- function() paste(sample(syllables, sample(2:4, 1), replace = TRUE), collapse = "")
vocabulary <- unique(replicate(6000, word()))
topics <- replicate(6, sample(length(vocabulary), 150), simplify = FALSE)
frequent <- c("the", "and", "of", "a", "to", "in", "is", "we", "you", "that", "have", "with")
letter <- function(i) {
  topic <- topics[[i %% 6 + 1]]
  size <- sample(60:160, 1)
  words <- c(vocabulary[sample(topic, size, replace = TRUE, prob = (1:150)^-.8)], sample(frequent, size, replace = TRUE),
             vocabulary[sample(length(vocabulary), size %/% 2, replace = TRUE)], sample(2000:2024, 3))
  words <- sample(words)
  words[seq(1, length(words), 12)] <- paste0(toupper(words[seq(1, length(words), 12)]), ",")
  paste0(paste(words, collapse = " "), ".")
}
texts <- vapply(1:2000, letter, "")

corpus <- VCorpus(VectorSource(texts))
corpus <- tm_map(corpus, content_transformer(tolower))
corpus <- tm_map(corpus, removePunctuation)
corpus <- tm_map(corpus, removeNumbers)
corpus <- tm_map(corpus, removeWords, stopwords("english"))
corpus <- tm_map(corpus, stripWhitespace)
inspect(corpus[1:2])

counts <- DocumentTermMatrix(corpus)
print(dim(counts))
print(sort(slam::col_sums(counts), decreasing = TRUE)[1:15])
print(head(findFreqTerms(counts, 300), 20))
common <- removeSparseTerms(counts, .97)
print(dim(common))
print(findAssocs(common, Terms(common)[1:3], .25))

weighted <- as.matrix(weightTfIdf(common))
weighted <- weighted / pmax(sqrt(rowSums(weighted^2)), 1e-9)
groups <- kmeans(weighted, 6, nstart = 3, iter.max = 30)
print(table(groups$cluster, (1:2000) %% 6))
for (k in 1:6) cat(k, names(sort(colMeans(weighted[groups$cluster == k, , drop = FALSE]), decreasing = TRUE)[1:6]), "\n")
tree <- hclust(dist(weighted[1:1000, ]), "ward.D2")
print(table(cutree(tree, 6)))
