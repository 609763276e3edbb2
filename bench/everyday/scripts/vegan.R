# Plants of forest plots: diversity, ordination, what the soil explains, and tests by permutation.
library(vegan)
set.seed(66)

plots <- 180
species <- 150
soil <- data.frame(ph = runif(plots, 4, 8), moisture = runif(plots), nitrogen = rgamma(plots, 3, 1), canopy = runif(plots, .2, 1),
                   management = factor(sample(c("none", "thinned", "clearcut"), plots, replace = TRUE)))
optimum <- cbind(runif(species, 4, 8), runif(species))
abundance <- sapply(seq_len(species), function(s) {
  suitability <- exp(-(soil$ph - optimum[s, 1])^2 / 1.2 - (soil$moisture - optimum[s, 2])^2 / .15)
  rpois(plots, rgamma(1, 1, .15) * suitability * ifelse(soil$management == "clearcut", .5, 1))
})
colnames(abundance) <- sprintf("species%03d", seq_len(species))
abundance <- abundance[, colSums(abundance) > 5]

indices <- data.frame(richness = specnumber(abundance), shannon = diversity(abundance), simpson = diversity(abundance, "simpson"))
print(aggregate(indices, list(management = soil$management), mean), digits = 4)
print(round(head(rarefy(abundance, min(rowSums(abundance)[rowSums(abundance) > 20])), 8), 3))
accumulated <- specaccum(abundance, method = "random", permutations = 200)
print(round(accumulated$richness[c(1, 10, 50, 100, 180)], 3))
print(specpool(abundance), digits = 4)

ordination <- metaMDS(abundance, k = 2, trymax = 8, trace = 0, autotransform = FALSE)
cat("stress:", round(ordination$stress, 4), "\n")
fitted <- envfit(ordination, soil, permutations = 999)
print(round(cbind(fitted$vectors$r, fitted$vectors$pvals), 4))

explained <- cca(abundance ~ ph + moisture + nitrogen + canopy + management, data = soil)
print(explained)
print(anova(explained, by = "terms", permutations = 299))
hellinger <- decostand(abundance, "hellinger")
redundancy <- rda(hellinger ~ ph + moisture + management, data = soil)
print(RsquareAdj(redundancy))
print(anova(redundancy, permutations = 999))

dissimilarity <- vegdist(abundance, "bray")
print(adonis2(dissimilarity ~ ph + moisture + management, data = soil, permutations = 1999))
print(permutest(betadisper(dissimilarity, soil$management), permutations = 999)$tab)
print(mantel(dissimilarity, dist(scale(soil[, 1:2])), permutations = 1999))
