# The cases of frozen-*: Rscript cases.R LIBPAGEWISE STORES WATCH CASE. What they find is said by stop(); the last line is "ok".
arguments <- commandArgs(TRUE)
dyn.load(arguments[1]); dyn.load(arguments[2])
watch <- as.integer(arguments[3]); case <- arguments[4]

full <- function(times = 1) for (i in seq_len(times)) gc(full = TRUE)
thaw <- function() invisible(.C("pw_thaw_now"))
native <- function(...) .Call(...)
try_freeze <- function(for_forks = FALSE) .C("pw_freeze_now", watch, as.integer(for_forks), why = "")$why
freeze <- function(...) {
    why <- try_freeze(...)
    if (nzchar(why)) stop("not frozen: ", why)
}
# A namespace of our own: what is in it may be frozen.
package <- new.env(parent = globalenv()); assign(".__NAMESPACE__.", list2env(list(spec = c(name = "frozentest", version = "1.0"))), package)
assign(".packageName", "frozentest", package)
.Internal(registerNamespace("frozentest", package))
in_package <- function(name, value) assign(name, value, envir = package)
expect <- function(found, what = deparse(substitute(found))) if (!isTRUE(found)) stop("not so: ", what, call. = FALSE)
megabytes <- function() sum(gc(full = TRUE)[, 2])
# Takes what was freed by mistake into use again.
overwrite <- function() { for (i in 1:5) { x <- lapply(1:20000, function(i) list(i, i + .5)); y <- paste0("overwritten", 1:5000) }; invisible() }

cases <- list()

# --- what the program gives up is given back ---

cases$memory <- function() {
    x <<- numeric(2e7); y <<- lapply(1:2e5, function(i) c(i, i + .5)); z <<- paste0("z", 1:2e5)
    in_package("texts", paste0("newer than z, and before it in the cache's chains ", 1:2e5))
    full(3); before <- megabytes()
    freeze()
    rm(x, y, z, envir = globalenv())
    after <- megabytes()
    expect(before - after > 160 + 20)
    in_package("kept", numeric(2e7)); full(3); freeze()
    with <- megabytes()
    rm("kept", envir = package)
    expect(with - megabytes() > 150)
}

# R's cache chains strings, newer ones before older ones, and so keeps none alive. (Its table turns the chains round when
# it grows, which it does not between these.)
cases$chains <- function() {
    z <<- paste0(strrep("z", 1000), 1:2.5e5)
    in_package("texts", paste0("newer than z ", 1:1e5))
    full(3); freeze(); before <- megabytes()
    rm(z, envir = globalenv())
    expect(before - megabytes() > 240)
}

cases$options <- function() { # R keeps these in base, and the program brought them
    options(mine = lapply(1:2e5, function(i) c(i, i)))
    full(3); freeze()
    before <- megabytes()
    options(mine = NULL)
    expect(before - megabytes() > 10)
}

# --- finalizers, weak references, external pointers ---

cases$finalizers <- function() {
    fired <- character()
    add <- function(name) function(e) fired <<- c(fired, name)
    global <- new.env(); reg.finalizer(global, add("global"))
    holder <- new.env(); in_package("holder", holder)
    holder$held <- new.env(); reg.finalizer(holder$held, add("held"))
    in_package("listed", list(list(new.env()))); reg.finalizer(listed[[1]][[1]], add("listed"))
    in_package("pointed", list(native("external_pointer", NULL))); reg.finalizer(pointed[[1]], add("pointed"))
    in_package("closed", local({ e <- new.env(); reg.finalizer(e, add("closed")); function() e }))
    in_package("late", new.env(parent = emptyenv())) # from here no key is reached: frozen
    full(3); expect(length(fired) == 0); freeze(); full(2); expect(length(fired) == 0)
    rm(global); full(); expect(identical(fired, "global"))
    holder$held <- NULL; full(); expect(identical(fired, c("global", "held")))
    in_package("listed", NULL); full(); expect("listed" %in% fired)
    in_package("pointed", NULL); full(); expect("pointed" %in% fired)
    in_package("closed", NULL); full(); expect("closed" %in% fired)
    reg.finalizer(late, add("late")); full(); expect(!"late" %in% fired) # of a frozen one
    in_package("late", NULL); full(); expect("late" %in% fired)
}

cases$`finalizer-stored-later` <- function() {
    fired <- 0
    in_package("cell", new.env()); cell$value <- 1
    full(3); freeze()
    cell$value <- new.env(); reg.finalizer(cell$value, function(e) fired <<- fired + 1)
    full(4); expect(fired == 0)
    cell$value <- 2; full(); expect(fired == 1)
}

cases$weak <- function() {
    key <- new.env(); reference <- native("weak_reference", key, list(1))
    in_package("key_of_package", new.env()); other <- native("weak_reference", key_of_package, list(2))
    full(3); freeze(); full()
    expect(!native("is_cleared", reference)); expect(!native("is_cleared", other))
    rm(key); full(); expect(native("is_cleared", reference))
    in_package("key_of_package", NULL); full(); expect(native("is_cleared", other))
}

# --- stores of old objects that are not frozen into frozen ones: no barrier of R's sees them ---

cases$stores <- function() {
    holders <- native("make_holders"); f <- function(x) x
    in_package("holders", list(pair = holders[[1]], list = holders[[2]], promise = holders[[3]], strings = holders[[4]],
                            closure = f, table = new.env(hash = TRUE), frame = new.env(hash = FALSE), plain = c(1, 2)))
    rm(holders, f); holders$table$x <- 0; holders$frame$x <- 0
    full(3); freeze()
    where <- c(car = "pair", cdr = "pair", tag = "pair", element = "list", attributes = "plain", formals = "closure",
               body = "closure", `closure-environment` = "closure", `promise-value` = "promise",
               `promise-environment` = "promise", string = "strings", enclosure = "frame")
    if (!native("changes_closures")) where <- where[where != "closure"]
    make <- function(kind) switch(kind, cdr = , attributes = , formals = as.pairlist(list(x = c(5, 6, 7))),
                                  `closure-environment` = , enclosure = , `promise-environment` = list2env(list(x = c(5, 6, 7))),
                                  string = paste0("a string of its own, ", "not known to others"), list(c(5, 6, 7), "x"))
    same <- function(kind) {
        found <- native("stored", kind, holders[[where[[kind]]]])
        if (is.environment(found)) identical(found$x, c(5, 6, 7)) else identical(found, make(kind))
    }
    for (kind in names(where)) {
        value <- make(kind); full(3) # of the oldest generation, and not frozen
        native("store", kind, holders[[where[[kind]]]], value); rm(value)
        full(); overwrite(); full(2); overwrite()
        expect(same(kind), kind)
    }
    for (name in c("table", "frame")) {
        value <- make("element"); full(3)
        assign("x", value, envir = holders[[name]]); rm(value)
        full(); overwrite(); full(2); overwrite()
        expect(identical(holders[[name]]$x, make("element")), name)
    }
    for (kind in names(where)) expect(kind %in% c("attributes") || same(kind), kind)
    thaw(); full(2); overwrite(); expect(same("element"))
    in_package("holder", list(1)); full(3) # before the first collection after a freeze
    expect(identical(native("store_right_after_freeze", holder, watch), "")); overwrite(); full(2); overwrite()
    expect(identical(holder[[1]], "old, and not frozen"))
}

# R goes on from a young collection to a full one, after the only moment that is seen.
cases$escalated <- function() {
    in_package("cell", new.env()); cell$value <- 1
    full(3); freeze()
    for (i in 1:6) {
        value <- list(i, c(5, 6)); full(3); cell$value <- value; rm(value)
        more <- lapply(1:(60000 * i), function(j) list(j)) # R's own collections, the heap's growth among them
        overwrite()
        expect(identical(cell$value, list(i, c(5, 6))))
    }
}

cases$young <- function() { # R's barrier tells of these
    in_package("cell", new.env()); for (n in letters) cell[[n]] <- 0
    full(3); freeze()
    for (i in 1:15) { for (n in letters) cell[[n]] <- list(i, n); overwrite(); if (i %% 10 == 0) full(); gc(full = FALSE)
                      for (n in letters) expect(identical(cell[[n]], list(i, n))) }
}

# --- kinds ---

cases$strings <- function() {
    in_package("texts", paste0("of package ", 1:10)); mine <- paste0("mine ", 1:2e4)
    full(3); freeze()
    for (i in 1:6) { more <- paste0("text ", i, " ", 1:5e4); full(); expect(sum(nchar(texts)) == 121) } # and the table grows
    rm(more); full(2); overwrite()
    expect(identical(texts, paste0("of package ", 1:10))); expect(identical(mine, paste0("mine ", 1:2e4)))
    same <- paste0("of package ", 1:10); expect(identical(match(same, texts), 1:10))
}

cases$code <- function() {
    in_package("fib", function(n) if (n < 2) n else fib(n - 1) + fib(n - 2))
    full(3); freeze()
    expect(fib(15) == 610); fib(18); full(2); overwrite() # compiled while it is frozen
    expect(fib(15) == 610); in_package("fib", compiler::cmpfun(fib)); full(2); overwrite(); expect(fib(15) == 610)
    f <- function() { x <- 1; repeat { x <- x + 1; if (x > 1e5) return(x) } }; expect(f() == 100001)
}

cases$classes <- function() {
    library(methods)
    setClass("Point", representation(x = "numeric")); setGeneric("shift", function(o, by) standardGeneric("shift"))
    setMethod("shift", "Point", function(o, by) { o@x <- o@x + by; o })
    Account <- setRefClass("Account", fields = list(total = "numeric"), methods = list(add = function(n) { total <<- total + n; invisible(.self) }))
    full(3); freeze()
    p <- new("Point", x = 1); for (i in 1:200) p <- shift(p, i); expect(p@x == 20101)
    a <- Account$new(total = 0); for (i in 1:200) a$add(i); full(2); overwrite(); expect(a$total == 20100)
    setClass("Third", contains = "Point", representation(y = "character")); setMethod("shift", "Third", function(o, by) callNextMethod())
    full(2); overwrite(); expect(shift(new("Third", x = 1, y = "a"), 2)@x == 3)
    setMethod("show", "Point", function(object) cat("")); full(); removeMethod("shift", "Third"); full(2); overwrite()
}

cases$alternative <- function() {
    in_package("compact", 1:1000000); in_package("deferred", as.character(1:100)); in_package("wrapped", sort(c(3, 1, 2)))
    full(3); freeze()
    expect(sum(compact) == 500000500000); x <- compact; x[2] <- 5L; full(); overwrite()
    expect(identical(deferred[100], "100")); expect(!is.unsorted(deferred[1:9])); full(2); overwrite()
    expect(identical(deferred, as.character(1:100))); expect(identical(wrapped, c(1, 2, 3))); expect(compact[77] == 77)
}

cases$preserved <- function() {
    fired <- FALSE
    x <- lapply(1:2e5, function(i) c(i, i)); native("preserve", x)
    e <- new.env(); reg.finalizer(e, function(e) fired <<- TRUE); native("preserve", e)
    in_package("both", list(1, 2)); native("preserve", both)
    full(3); freeze(); before <- megabytes()
    native("release", x); rm(x); expect(before - megabytes() > 10)
    native("release", e); rm(e); full(); expect(fired)
    native("release", both); full(2); overwrite(); expect(identical(both, list(1, 2)))
    y <- list(7); native("preserve", y); full(2); overwrite(); expect(identical(y, list(7))); native("release", y)
}

# --- namespaces that come and go ---

cases$unload <- function() {
    for (i in 1:6) {
        loadNamespace("splines"); loadNamespace("stats4"); x <- splines::bs(1:20, df = 5)
        freeze(); full(); overwrite()
        unloadNamespace("splines"); full(); unloadNamespace("stats4"); full(2)
        if (i == 2) before <- megabytes()
    }
    expect(megabytes() - before < 3)
    expect(dim(x)[2] == 5)
}

cases$unregistered <- function() { # what a frozen namespace holds is held as long as it is loaded
    other <- new.env(parent = globalenv()); assign(".__NAMESPACE__.", list2env(list(spec = c(name = "frozenother", version = "1.0"))), other)
    .Internal(registerNamespace("frozenother", other)); assign("held", numeric(2e7), other)
    full(3); freeze(); before <- megabytes()
    .Internal(unregisterNamespace("frozenother")); rm(other)
    full(); expect(before - megabytes() > 100) # what was frozen counts again, and is less
}

cases$unfrozen <- function() { # loaded after, and again and again
    full(3); freeze()
    for (i in 1:6) { loadNamespace("splines"); x <- splines::bs(1:20, df = 5); overwrite(); unloadNamespace("splines"); full(2)
                     if (i == 2) before <- megabytes() }
    expect(megabytes() - before < 3)
}

# --- processes, and R's own switches ---

cases$fork <- function() {
    loadNamespace("parallel") # whose own finalizer would thaw
    in_package("cell", new.env()); cell$value <- 1
    in_package("cells", lapply(1:3000, function(k) list2env(list(v = 0), parent = emptyenv()))) # over pages that its parent does not write
    full(3); freeze(); value <- list(1, c(5, 6)); full(3)
    frozen <- gc()[1, 1]
    work <- function(i) {
        full() # a child looks at all nodes once, and has its own pages watched from then on
        if (gc()[1, 1] > frozen + 100000) return("thawed")
        for (k in 1:3000) assign("v", list(k, i), envir = cells[[k]])
        full(); overwrite()
        for (k in 1:3000) if (!identical(cells[[k]]$v, list(k, i))) return(FALSE)
        cell$value <- list(i, value); v <- list(i, "own"); full(3); cell$other <- 0; assign("value", v, envir = cell); rm(v)
        full(); overwrite(); full(2); overwrite()
        more <- parallel::mclapply(1:2, function(j) { cell$value <- list(i, j); full(2); overwrite(); cell$value }, mc.cores = 2)
        identical(cell$value, list(i, "own")) && identical(more, list(list(i, 1L), list(i, 2L)))
    }
    expect(identical(unlist(parallel::mclapply(1:2, work, mc.cores = 2)), rep(TRUE, 2)))
    cell$value <- value; rm(value); full(2); overwrite(); expect(identical(cell$value, list(1, c(5, 6))))
}

# What a parent freezes for its workers stays shared with them when they collect, though half of each page is free.
cases$workers <- function() {
    loadNamespace("parallel")
    in_package("cell", new.env()); cell$value <- 1
    all <- lapply(1:1e6, function(i) c(i, i + .5)); in_package("kept", all[c(TRUE, FALSE)]); rm(all)
    freeze(for_forks = TRUE); value <- list(1, c(5, 6)); full(3)
    own <- function() { # megabytes that are this process's alone
        lines <- grep("^Private_(Clean|Dirty):", readLines("/proc/self/smaps_rollup"), value = TRUE)
        sum(as.numeric(sub(".*: *([0-9]+) kB", "\\1", lines))) / 1024
    }
    work <- function(i) {
        full(); private <- own()
        cell$value <- list(i, value); cell$other <- value; v <- list(i, "own"); full(2); assign("value", v, envir = cell); rm(v)
        gctorture2(211); x <- paste(vapply(1:40, function(j) { cell$kept <- list(j, letters[j %% 7 + 1]); cell$kept[[2]] }, ""), collapse = ""); gctorture2(0)
        overwrite(); full(2); overwrite()
        list(private, x, cell$value, identical(cell$other, list(1, c(5, 6))), identical(kept[[2e5]], c(399999, 399999.5)))
    }
    for (found in parallel::mclapply(1:4, work, mc.cores = 4)) {
        expect(found[[1]] < 28) # 16, of 83 where free nodes of such pages are R's; the pages have 64
        expect(found[[2]] == paste(letters[1:40 %% 7 + 1], collapse = "")); expect(identical(found[[3]][[2]], "own")); expect(found[[4]] && found[[5]])
    }
    cell$value <- value; rm(value); full(2); overwrite(); expect(identical(cell$value, list(1, c(5, 6))))
    thaw(); full(2); overwrite(); expect(identical(cell$value, list(1, c(5, 6))))
}

cases$torture <- function() {
    in_package("cell", new.env()); cell$value <- 1
    f <- function() { for (i in 1:4) { cell$value <- list(i, letters[i]); x <- paste(cell$value, "x") }; x }
    f(); full(3); freeze(); y <- list(1, c(5, 6)); full(3); cell$kept <- y; rm(y)
    gctorture2(101); x <- f(); y <- tryCatch(stop("a"), error = function(e) conditionMessage(e)); gctorture2(0)
    expect(identical(x, c("4 x", "d x"))); expect(y == "a"); expect(identical(cell$kept, list(1, c(5, 6))))
    thaw(); gctorture(TRUE); why <- try_freeze(); gctorture(FALSE)
    expect(why == "gctorture is on")
}

cases$switches <- function() { # whoever ends the times of collections ends what is seen of them
    in_package("cell", new.env()); cell$value <- 1
    full(3); freeze(); y <- list(1, c(5, 6)); full(3); cell$value <- y; rm(y)
    gc.time(FALSE); full(2); overwrite(); full(2); overwrite(); expect(identical(cell$value, list(1, c(5, 6))))
    gc.time(); freeze(); gc.time(); full(); thaw(); thaw(); full(); freeze(); freeze(); full(2); overwrite()
    expect(identical(cell$value, list(1, c(5, 6))))
}

cases$thawed <- function() { # what a frozen node held is held by R's own lists again
    in_package("cell", new.env()); for (n in letters) cell[[n]] <- 0
    for (i in 1:4) {
        full(3); freeze(); full()
        for (n in letters) cell[[n]] <- list(i, n)
        thaw(); gc(full = FALSE); overwrite(); gc(full = FALSE); overwrite()
        for (n in letters) expect(identical(cell[[n]], list(i, n)))
        full(2); overwrite()
        for (n in letters) expect(identical(cell[[n]], list(i, n)))
    }
}

cases$counts <- function() { # as many nodes after a thaw as before the freeze, and room for more
    freeze(); thaw(); full(3); before <- gc(full = TRUE)[1, 1] # a first freeze has R load and compile a little
    for (i in 1:6) { freeze(); full(4); thaw(); x <- lapply(1:1e5, function(i) list(i)); rm(x) }
    expect(abs(gc(full = TRUE)[1, 1] - before) < 50000)
    freeze(); for (i in 1:20) full(); thaw(); x <- lapply(1:1e6, function(i) list(i)); expect(length(x) == 1e6)
}

cases$most <- function() { # R refuses what is beyond its own limit, frozen or thawed
    before <- mem.maxVSize(); more <- list(); on.exit(mem.maxVSize(before))
    in_package("kept", lapply(1:3e5, function(i) c(i, 1:7))); full(3); freeze(); thaw(); expect(mem.maxVSize() == before)
    most <- max(150, ceiling(gc()[2, 4]) + 50); mem.maxVSize(most)
    fill <- function() tryCatch(repeat { more[[length(more) + 1]] <<- numeric(125000); if (length(more) > 2 * most) break }, error = conditionMessage)
    refuses <- function(room = 10) { expect(grepl("memory", fill())); expect(length(more) < most - room) } # what is frozen counts
    freeze(); refuses(); thaw(); refuses(); full(); refuses(); expect(mem.maxVSize() == most)
    more <- list(); full(); freeze(); mem.maxVSize(most + 10); thaw(); expect(mem.maxVSize() == most + 10)
    freeze(); mem.maxVSize(Inf); thaw(); expect(mem.maxVSize() == Inf); freeze(); thaw(); expect(mem.maxVSize() == Inf)
    freeze(); mem.maxVSize(most); refuses(0); thaw(); refuses(0); full(); refuses(0) # here it does not
    # Little is in use: R goes back to what it began with, which is more than is left beside what is frozen.
    more <- list(); full(3); mem.maxVSize(ceiling(gc()[2, 4]) + 5); freeze(); full(3)
    fill(); expect(length(more) < 2 * most); thaw(); full(3); fill(); expect(length(more) < 2 * most)
}

cases$refused <- function() { # a heap that looks otherwise is not believed
    in_package("cell", native("make_holders")[[1]]); full(3)
    with_flipped <- function(bit) { native("flip", cell, bit); why <- try_freeze(); native("flip", cell, bit); why }
    for (i in 1:2) {
        expect(with_flipped(28L) == "the counts of nodes differ from what there is") # its generation
        expect(with_flipped(29L) == "the pages of nodes look otherwise")             # its class
        freeze(); full(); thaw(); full()
    }
    expect(is.null(attributes(.Internal(getNamespaceRegistry()))))
}

cases$interrupts <- function() { # a package's C code looks for an interrupt, which allocates nothing
    for (i in 1:10) { x <- lapply(1:50000, function(i) i); expect(native("sum_of_unprotected")) }
}

cases$interrupted <- function() { # while it freezes, by hand or for forks: R hears of it, and what was frozen is
    in_package("cell", new.env()); cell$value <- 1
    for (for_forks in c(0L, 1L, 0L, 1L)) {
        heard <- tryCatch({ native("freeze_interrupted", watch, for_forks); for (i in 1:1e5) x <- list(i); FALSE }, interrupt = function(e) TRUE)
        expect(heard); expect(native("why_not_frozen") == "")
    }
    value <- list(1, c(5, 6)); full(3); cell$value <- value; rm(value); full(2); overwrite()
    expect(identical(cell$value, list(1, c(5, 6)))); freeze(); thaw(); freeze()
}

cases$signalled <- function() { # by a finalizer, which a collection of the freeze runs: the handler runs when it is done
    for (number in c(10L, 12L)) { # SIGUSR1, SIGUSR2
        at_once <- NA; native("await_signal", number)
        reg.finalizer(new.env(), function(e) at_once <<- native("raise_signal", number))
        freeze(TRUE); expect(isFALSE(at_once)); expect(native("took_signal"))
        native("raise_signal", number); expect(!native("took_signal")) # the handler is back in its place
        at_once <- NA; native("await_signal", number) # a thaw collects as well
        reg.finalizer(new.env(), function(e) at_once <<- native("raise_signal", number))
        thaw(); expect(isFALSE(at_once)); expect(native("took_signal")); freeze()
        why <- NA; native("await_signal", number) # and within a finalizer, as freeze=auto does
        reg.finalizer(new.env(), function(e) { native("signal_soon", number); why <<- try_freeze(TRUE) })
        full(); expect(!is.na(why)); if (why == "") expect(native("took_signal"))
        full(2); freeze()
    }
}

cases$exhausted <- function() { # R has no memory for what a first freeze takes; later it has
    in_package("cell", new.env()); full(3); before <- mem.maxVSize(); more <- list(); small <- vector("list", 600); on.exit(mem.maxVSize(before))
    mem.maxVSize(ceiling(megabytes()) + 100)
    tryCatch(repeat more[[length(more) + 1]] <- numeric(125000), error = function(e) NULL)
    expect(grepl("memory", tryCatch(try_freeze(), error = conditionMessage)))
    # Little by little more: each of the vectors that it takes is refused once, and a later freeze is none the worse.
    for (k in 1:4) more[k] <- list(NULL)
    tryCatch(for (k in seq_along(small)) small[[k]] <- numeric(1000), error = function(e) NULL)
    for (k in seq_along(small)) { small[k] <- list(NULL); if (k %% 10 == 0) { tryCatch(try_freeze(), error = function(e) NULL); gc(full = FALSE) } }
    mem.maxVSize(before); rm(more, small); freeze(); cell$value <- list(1, c(5, 6)); gc(full = FALSE); overwrite(); full(2); overwrite()
    expect(identical(cell$value, list(1, c(5, 6))))
}

# --- pages that are written all the time are given back ---

cases$hot <- function() {
    loadNamespace("parallel"); count <- 20000; names <- paste0("a.symbol.that.is.written.", 1:5000)
    in_package("calls", lapply(names, function(name) call(name, 1))) # a symbol each, held by a frozen call
    in_package("cells", lapply(1:count, function(k) { e <- new.env(hash = FALSE, parent = emptyenv()); e$v <- 0; e }))
    in_package("holders", lapply(cells, function(e) list(e))) # these are not written
    full(3); freeze(); frozen <- gc()[1, 1]
    write <- function(value) { for (e in cells) assign("v", value, envir = e); in_package("written", lapply(names, as.name)) } # which counts in them
    for (i in 1:80) { write(i); gc(full = FALSE) }
    if (Sys.getenv("TELLS") == "1") expect(gc()[1, 1] > frozen + count / 2) # R's again
    value <- list(7, c(5, 6)); full(3); write(value); rm(value); in_package("cells", NULL)
    full(2); overwrite(); full(2); overwrite()
    same <- function() expect(all(vapply(holders, function(h) identical(h[[1]]$v, list(7, c(5, 6))), TRUE)))
    named <- function() expect(identical(vapply(calls, function(call) as.character(call[[1]]), ""), names) && identical(as.character(lapply(names, as.name)), names))
    in_package("written", NULL); full(2); overwrite(); full(2); overwrite(); same(); named()
    same_in_child <- parallel::mclapply(1:2, function(i) { full(2); overwrite(); same(); for (h in holders) assign("v", i, envir = h[[1]]); full(2); overwrite(); holders[[9]][[1]]$v }, mc.cores = 2)
    expect(identical(same_in_child, list(1L, 2L))); same(); named(); thaw(); full(2); overwrite(); same(); freeze(); full(2); overwrite(); same(); named()
}

cases$full <- function() { # more than R can be told of: all is given back at once
    in_package("holders", lapply(1:3e5, function(i) list(0)))
    full(3); freeze(); value <- list(7, c(5, 6)); full(3); frozen <- gc()[1, 1]
    for (h in holders) native("store", "element", h, value)
    rm(value); full(); overwrite(); expect(gc()[1, 1] > frozen + 3e5); full(2); overwrite()
    for (h in holders) expect(identical(h[[1]], list(7, c(5, 6))))
}

# --- the program's finalizers and its heap are what they are without ---

cases$`finalizer-in-finalizer` <- function() { # R loses one where another that is ready follows the one that registers it
    fired <- 0; second <- function(e) fired <<- fired + 1; first <- function(e) reg.finalizer(new.env(), second)
    for (i in 1:60) { reg.finalizer(new.env(), first); full(2); expect(fired >= i - 1) } # plain R loses the first
}

cases$grows <- function() { # R's heap, as it does with nothing frozen: where more than .7 of it is in use
    in_package("kept", lapply(1:5e5, function(k) list(k))); full(6); thaw()
    before <- gc()[1, 1]; freeze(); frozen <- before - gc()[1, 1]; more <- NULL
    for (i in 1:8) {
        more <- list(more, lapply(1:4e4, function(k) list(k))); full(4)
        found <- gc(); expect(found[1, 1] + frozen <= .72 * (found[1, 3] + frozen))
    }
}

cases$`fork-and-again` <- function() { # a child has what its parent watched open, and has not looked yet
    loadNamespace("parallel"); full(3); freeze()
    child <- parallel::mcparallel(Sys.sleep(4)); freeze(); full(2); overwrite(); thaw(); freeze(); full(2); overwrite()
    parallel::mccollect(child)
}

cases$off <- function(also = NULL) { # gives everything back, for good, though a freeze is due
    in_package("cell", new.env()); package$cell$value <- list(1, c(5, 6)); full(30); frozen <- gc()[1, 1]
    for (i in 1:12) gc(full = FALSE)
    also; .C("pw_switch_off", PACKAGE = "libpagewise")
    for (i in 1:30) expect(gc()[1, 1] > frozen + 2e5)
    overwrite(); x <- lapply(1:1e6, function(i) list(i)); expect(length(x) == 1e6); expect(identical(package$cell$value, list(1, c(5, 6))))
}

cases$`off-in-finalizers` <- function() cases$off(reg.finalizer(new.env(), function(e) full(12))) # which run meanwhile

cases$auto <- function() { # by itself, when full collections have taken twice what it costs
    value <- list(1, c(5, 6)); end <- proc.time()[[1]] + 6
    while (proc.time()[[1]] < end) { for (i in 1:2) reg.finalizer(new.env(), function(e) NULL); x <- lapply(1:3000, function(i) list(i, i + .5)); full(); for (i in 1:20000) y <- i * 2 }
    overwrite(); expect(identical(value, list(1, c(5, 6)))); expect(identical(x[[7]], list(7L, 7.5)))
}

run <- cases[[case]]
if (case != "classes") environment(run) <- package # methods expects more of a namespace
run()
cat("ok\n")
