# A parent that loads a package and forks workers, which wait to be looked at: parent.R PACKAGE WORKERS WORK HOW FOLDER
# HOW is "freeze", before the fork, or "fork" alone. WORK is what a worker does:
# "nothing", "collect" (once, all generations) or "serve" (requests in a loop, as Rserve's children have them, and a
# collection). Each writes FOLDER/PID when it is done, and ends when FOLDER/end is there,
# or FOLDER is not.
arguments <- commandArgs(TRUE)
package <- arguments[1]; workers <- as.integer(arguments[2]); work <- arguments[3]; how <- arguments[4]; folder <- arguments[5]
suppressWarnings(suppressMessages(library(package, character.only = TRUE)))
invisible(loadNamespace("parallel"))
for (i in 1:3) invisible(gc(full = TRUE)) # all that was loaded is old, as in a parent that has run for a while

if (how == "freeze" && !pagewise::pagewise_freeze()) stop("not frozen")

requests <- 20
request <- function(i) {
    data <- data.frame(y = rnorm(200), x = rnorm(200), z = sample(letters[1:4], 200, TRUE))
    fit <- lm(y ~ x * z, data)
    c(coef(summary(fit))[, 1], nchar(paste(utils::capture.output(print(anova(fit))), collapse = "")))
}
is_there <- function(name) file.exists(file.path(folder, name))
worker <- function(i) {
    if (work == "serve") for (i in seq_len(requests)) request(i)
    if (work != "nothing") gc(full = TRUE)
    file.create(file.path(folder, Sys.getpid()))
    while (dir.exists(folder) && !is_there("end")) Sys.sleep(.05)
    TRUE
}
jobs <- lapply(seq_len(workers), function(i) parallel::mcparallel(worker(i)))
if (!all(vapply(parallel::mccollect(jobs), isTRUE, NA))) stop("a worker failed")
