# What gc(freeze = TRUE) promises, in an R with the patch: Rscript --vanilla freeze.R. What is wrong is said by stop(); the
# last line is "ok".
expect <- function(found, what = deparse(substitute(found))) if (!isTRUE(found)) stop("not so: ", paste(what, collapse = ""), call. = FALSE)
full <- function(times = 1) for (i in seq_len(times)) gc()
freeze <- function() invisible(gc(freeze = TRUE))
thaw <- function() invisible(gc(freeze = FALSE))
megabytes <- function() sum(gc()[, 2])
# Takes what was freed by mistake into use again.
overwrite <- function() { for (i in 1:5) { x <- lapply(1:20000, function(i) list(i, i + .5)); y <- paste0("overwritten", 1:5000) }; invisible() }
# Vectors in the sizes of R's own pages, of a malloc() each, and above what is frozen.
value <- function() list(c(5, 6, 7), paste0("a text of its own ", 1:3), 1:40 + .5, as.list(paste("one of", 1:40)), 1:700 + .5)
gc() # and what it needs is compiled

# An old object that is not frozen, stored into a frozen one: the ways in which R code does that in place. The attribute is
# of an environment, as others are copied.
f <- function(x) x; environment(f) <- new.env()
makeActiveBinding("active", local({ kept <- NULL; function(v) if (missing(v)) kept else kept <<- v }), environment())
holders <- list(hashed = new.env(hash = TRUE), plain = new.env(hash = FALSE), registered = new.env(), marked = new.env())
setClass("Held", representation(it = "ANY")); reference <- setRefClass("Reference", fields = list(it = "ANY"))$new(it = 0)
for (e in holders) { e$it <- 0; e$other <- 0 }
elements <- vector("list", 40); long <- vector("list", 2000)
stores <- list(
    hashed = list(function(v) assign("it", v, holders$hashed), function() holders$hashed$it),
    new = list(function(v) assign(paste0("new", length(ls(holders$hashed))), v, holders$hashed),
               function() get(paste0("new", length(ls(holders$hashed)) - 1), holders$hashed)),
    plain = list(function(v) assign("it", v, holders$plain), function() holders$plain$it),
    parent = list(function(v) parent.env(holders$plain) <- list2env(list(inherited = v)), function() parent.env(holders$plain)$inherited),
    attribute = list(function(v) attr(holders$marked, "it") <<- v, function() attr(holders$marked, "it")),
    active = list(function(v) active <<- v, function() active),
    closure = list(function(v) environment(f)$it <- v, function() environment(f)$it),
    global = list(function(v) assign("a_variable", v, globalenv()), function() get("a_variable", globalenv())),
    option = list(function(v) options(freeze.test = v), function() getOption("freeze.test")),
    element = list(function(v) { elements[[7]] <<- v; long[[7]] <<- v }, function() if (identical(elements[[7]], long[[7]])) elements[[7]]),
    field = list(function(v) reference$it <- v, function() reference$it),
    promise = list(function(v) { force(v); delayedAssign("it", v, environment(), holders$registered) }, function() holders$registered$it))
for (round in 1:3) {
    freeze()
    for (name in names(stores)) {
        it <- value(); full(3) # of the oldest generation
        stores[[name]][[1]](it); rm(it)
        gc(full = FALSE); full(); overwrite(); full(2); overwrite()
        expect(identical(stores[[name]][[2]](), value()), paste(name, "holds what was stored"))
    }
    for (name in names(stores)) expect(identical(stores[[name]][[2]](), value()), paste(name, "still holds it"))
}
for (i in 1:6) { # R goes on from a young collection to a full one by itself
    it <- list(i, c(5, 6)); full(3); assign("it", it, holders$hashed); rm(it)
    more <- lapply(1:(60000 * i), function(j) list(j)); overwrite()
    expect(identical(holders$hashed$it, list(i, c(5, 6))))
}
rm(more)

# Large vectors are given back, and what else was frozen when it is thawed.
x <- numeric(2e7); y <- lapply(1:4e5, function(i) c(i, i + .5))
freeze(); before <- megabytes(); rm(x)
expect(before - megabytes() > 150)
before <- megabytes(); rm(y); kept <- megabytes()
expect(before - kept < 10); thaw(); expect(before - megabytes() > 20)

# Finalizers and weak references wait for a thaw where their key is frozen, and only there.
fired <- character()
add <- function(name) function(e) fired <<- c(fired, name)
old <- new.env(); reg.finalizer(old, add("frozen"))
freeze(); young <- new.env(); reg.finalizer(young, add("not"))
rm(old, young); full(2); expect(identical(fired, "not")); thaw(); full(); expect(identical(fired, c("not", "frozen")))
at_exit <- "reg.finalizer(new.env(), function(e) cat('at exit'), onexit = TRUE); stopifnot(gc(freeze = TRUE)[1, 1] < 1e7)"
expect(identical(system2(file.path(R.home("bin"), "R"), c("--vanilla", "--no-echo", "-e", shQuote(at_exit)), stdout = TRUE)[2], "at exit"))

# Counts are those without a freeze, and room is found again and again.
thaw(); full(2); before <- gc()[1, 1]; expect(abs(gc(freeze = TRUE)[1, 1] - before) < 5000); expect(abs(gc()[1, 1] - before) < 5000)
wide <- numeric(1000); many <- lapply(1:20000, function(i) list(wide)); full(2)
count <- sum(memory.profile()); freeze(); expect(abs(sum(memory.profile()) - count) < 500)
thaw(); rm(many); expect(count - sum(memory.profile()) > 15000)
for (i in 1:8) { freeze(); full(); thaw(); z <- lapply(1:1e5, function(i) list(i)) }
rm(z); expect(abs(gc()[1, 1] - before) < 20000); expect(sum(memory.profile()) >= before)

# Other kinds, collecting all the time.
deferred <- as.character(1:100); compact <- 1:1000000; fib <- function(n) if (n < 2) n else fib(n - 1) + fib(n - 2)
freeze(); invisible(gctorture2(53))
expect(fib(12) == 144); expect(sum(compact) == 500000500000); expect(identical(deferred[99], "99"))
setClass("Point", representation(x = "numeric")); invisible(setGeneric("shift", function(o, by) standardGeneric("shift")))
setMethod("shift", "Point", function(o, by) { o@x <- o@x + by; o }); expect(shift(new("Point", x = 1), 2)@x == 3)
expect(tryCatch(stop("a"), error = conditionMessage) == "a"); invisible(gctorture2(0))
invisible(loadNamespace("splines")); freeze(); unloadNamespace("splines"); full(2); thaw(); full(2); overwrite()

# A child that collects leaves shared what is frozen, and pages of free nodes.
own <- function() {
    lines <- grep("^Private_(Clean|Dirty):", readLines("/proc/self/smaps_rollup"), value = TRUE)
    sum(as.numeric(sub(".*: *([0-9]+) kB", "\\1", lines))) / 1024
}
child <- function() parallel::mccollect(parallel::mcparallel({ full(); own() }))[[1]]
kept <- lapply(1:5e5, function(i) c(i, i)); texts <- strrep("a text of its own", 1:100)
dropped <- lapply(1:5e5, list); invisible(loadNamespace("parallel")); rm(dropped); full(4)
invisible(child()); full(4); plain <- child(); freeze(); full(4); frozen <- child(); cat(sprintf("a child's own memory: %.0f MB, frozen %.0f MB\n", plain, frozen))
expect(frozen < plain / 8)
cat("ok\n")
