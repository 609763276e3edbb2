# A collaboration network: size, centrality, communities, and what happens when hubs leave.
library(igraph)
set.seed(8)

groups <- 150
size <- 200
n <- groups * size
group <- rep(seq_len(groups), each = size)
inside <- do.call(rbind, lapply(seq_len(groups), function(g) {
  as_edgelist(sample_pa(size, m = 4, directed = FALSE)) + (g - 1) * size
}))
across <- matrix(sample(n, 24000, replace = TRUE), ncol = 2)
graph <- simplify(graph_from_edgelist(rbind(inside, across), directed = FALSE))
V(graph)$name <- sprintf("author%05d", seq_len(n))
V(graph)$group <- group
E(graph)$weight <- sample(1:5, ecount(graph), replace = TRUE)

cat(vcount(graph), "authors,", ecount(graph), "links,", components(graph)$no, "part\n")
print(summary(degree(graph)))
cat("clustering:", round(transitivity(graph), 5), "\n")

rank <- page_rank(graph)$vector
print(round(1e6 * sort(rank, decreasing = TRUE)[1:10], 2))
print(round(sort(eigen_centrality(graph)$vector, decreasing = TRUE)[1:5], 4))
near <- distances(graph, v = sample(n, 150), weights = NA)
print(table(near[is.finite(near)]))

communities <- cluster_louvain(graph)
cat("communities:", length(communities), "modularity:", round(modularity(communities), 4), "\n")
cat("agreement with the groups:", round(compare(membership(communities), group, method = "nmi"), 4), "\n")
spread <- cluster_label_prop(graph)
cat("label propagation:", length(spread), "\n")

core <- coreness(graph)
print(table(core))
hubs <- order(degree(graph), decreasing = TRUE)
for (share in c(.01, .05, .1, .2)) {
  left <- delete_vertices(graph, hubs[seq_len(share * n)])
  cat(sprintf("without %2.0f %%: largest part %d of %d\n", 100 * share, max(components(left)$csize), vcount(left)))
}
ego_sizes <- ego_size(graph, order = 2, nodes = sample(n, 3000))
print(summary(ego_sizes))
neighbour_rank <- sapply(adjacent_vertices(graph, 1:3000), function(v) mean(rank[v]))
print(round(cor(neighbour_rank, rank[1:3000]), 4))
