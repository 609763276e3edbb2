# CPU time of collections in ms before and after gc(freeze = TRUE), with R's own packages loaded: Rscript --vanilla figures.R
for (package in c("stats4", "splines", "parallel", "compiler", "grid", "tools"))
    suppressWarnings(requireNamespace(package, quietly = TRUE))
cpu <- function() 1000 * sum(proc.time()[1:2])
mean_of <- function(full) { start <- cpu(); for (i in 1:30) gc(full = full); (cpu() - start) / 30 }
for (i in 1:3) gc()
cat(sprintf("%.0f nodes: full %.1f, young %.1f\n", gc()[1, 1], mean_of(TRUE), mean_of(FALSE)))
start <- cpu(); invisible(gc(freeze = TRUE)); cat(sprintf("freeze, two full collections among it: %.1f\n", cpu() - start))
for (i in 1:2) gc()
cat(sprintf("frozen: full %.1f, young %.1f\n", mean_of(TRUE), mean_of(FALSE)))
