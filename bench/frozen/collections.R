# CPU time of collections with a package loaded, in ms: collections.R PACKAGE LIBRARY WATCH PLACE
# Before anything is frozen, then of the freeze, then after it. A package "base" is none.
arguments <- commandArgs(TRUE)
watch <- as.integer(arguments[3])
if (arguments[1] != "base") suppressWarnings(suppressMessages(library(arguments[1], character.only = TRUE)))
invisible(gc.time(TRUE))
dyn.load(arguments[2])

cpu <- function() sum(proc.time()[1:2])
one <- function(full) {
    garbage <- lapply(1:1000, function(i) c(i, i))
    start <- cpu()
    gc(full = full)
    1000 * (cpu() - start)
}
collections <- function(full) mean(vapply(1:12, function(i) one(full), 0)[3:12])

plain <- c(collections(TRUE), collections(FALSE))
start <- cpu()
why <- .C("pw_freeze_now", watch, 0L, why = "")$why
took <- 1000 * (cpu() - start)
if (nzchar(why)) stop("not frozen: ", why)
cat(plain, took, collections(TRUE), collections(FALSE), "\n", file = arguments[4])
