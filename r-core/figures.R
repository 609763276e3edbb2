# What gc(freeze = TRUE) saves when packages are loaded: CPU time of collections, and memory of a forked child that is its
# own after a full collection. Rscript --vanilla figures.R [PACKAGE ...], each of them a row; else three rows.
# Six processes without a freeze and six with one run in turn; medians. Packages come from Debian's folders, too.
.libPaths(c(.Library, "/usr/lib/R/site-library", "/usr/lib/R/library"))
arguments <- commandArgs(TRUE)

process <- function(packages, frozen) {
    for (package in packages) suppressMessages(library(package, character.only = TRUE))
    invisible(loadNamespace("parallel"))
    cpu <- function() 1000 * sum(proc.time()[1:2])
    mean_of <- function(full) { start <- cpu(); for (i in 1:20) gc(full = full); (cpu() - start) / 20 }
    own <- function() {
        line <- grep("^Private_Dirty:", readLines("/proc/self/smaps_rollup"), value = TRUE)
        as.numeric(sub(".*: *([0-9]+) kB", "\\1", line)) / 1024
    }
    child <- function(collections) parallel::mccollect(parallel::mcparallel({
        for (i in seq_len(collections)) gc()
        own()
    }))[[1]]
    for (i in 1:4) gc()
    if (frozen) gc(freeze = TRUE)
    for (i in 1:4) gc()
    child(0); gc() # what this needs is loaded
    cat(mean_of(TRUE), mean_of(FALSE), child(0), child(1), gc()[1, 1])
}

row <- function(packages) {
    file <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
    run <- function(frozen) {
        out <- system2(file.path(R.home("bin"), "Rscript"),
                       c("--vanilla", file, if (frozen) "process=frozen" else "process=plain", packages), stdout = TRUE)
        as.numeric(strsplit(out[length(out)], " ")[[1]])
    }
    found <- replicate(6, rbind(run(FALSE), run(TRUE)))
    medians <- apply(found, 1:2, median)
    cat(sprintf("| %s | %.2f M | %.1f, %.1f | %.1f, %.1f | %.1f | %.1f, %.1f |\n",
                if (length(packages) > 1) paste(length(packages), "of R's own") else packages, medians[1, 5] / 1e6,
                medians[1, 1], medians[2, 1], medians[1, 2], medians[2, 2], medians[1, 3], medians[1, 4], medians[2, 4]))
}

if (length(arguments) > 0 && grepl("^process=", arguments[1])) {
    process(arguments[-1], arguments[1] == "process=frozen")
} else {
    cat("| packages loaded | objects | full collection, frozen, ms | young, frozen, ms | child's own MB |",
        "after a full collection, frozen, MB |\n")
    cat("|---|---|---|---|---|---|\n")
    rows <- list(c("stats4", "splines", "parallel", "compiler", "grid", "tools"), "ggplot2", "mlr")
    if (length(arguments) > 0) rows <- as.list(arguments)
    for (packages in rows) {
        missing <- setdiff(packages, rownames(installed.packages()))
        if (length(missing) > 0)
            cat("not installed: ", missing, "; on Debian type: apt-get install r-cran-", missing[1], "\n", sep = "")
        else row(packages)
    }
}
