# Where the handle starts in what was serialised.
handle_in <- function(bytes) {
  at <- grepRaw("PWSH", bytes, fixed = TRUE)
  stopifnot(length(at) == 1)
  at
}

test_that("every kind of vector comes out as it went in", {
  set.seed(1)
  n <- 2000L
  objects <- list(
    logical = rep(c(TRUE, FALSE, NA, TRUE), n / 4), integer = c(sample(n), NA, -1L),
    double = c(runif(n), NA, NaN, Inf, -Inf, -0), complex = complex(n, 1:n, NA), raw = as.raw(rep(0:255, 20)),
    character = c(paste0("s", seq_len(n)), NA, "", "NA", "\u00e9\u4e2d"),
    names = setNames(runif(n), paste0("n", seq_len(n))),
    matrix = matrix(runif(n), 40, dimnames = list(paste0("r", 1:40), NULL)),
    array = array(seq_len(n) + 0, c(10, 10, 20)), factor = factor(sample(letters, n, TRUE)),
    date = as.Date("2024-01-01") + seq_len(n), time = .POSIXct(seq_len(n) + 0.5, "UTC"),
    frame = data.frame(a = seq_len(n), b = runif(n), c = sample(letters, n, TRUE), row.names = paste0("row", seq_len(n))),
    nested = list(1, list(x = runif(n), y = list(NULL, "a", runif(n))), quote(a + b)),
    compact = 1:100000, compact_double = seq(1, 5000, by = 1) + 0,
    small = 1:3, null = NULL, empty = numeric(), empty_frame = data.frame(), no_names = list(),
    time_series = ts(runif(n), start = 2000, frequency = 12)
  )
  for (name in names(objects)) {
    shared <- share(objects[[name]])
    expect_identical(shared, objects[[name]], info = name)
    expect_identical(sent(shared), objects[[name]], info = name)
    expect_identical(sent(sent(shared)), objects[[name]], info = name)
  }
  all <- share(objects)
  expect_identical(sent(all), objects)
  expect_lt(wire(all), wire(objects) / 10)
  expect_identical(unserialize(serialize(all, NULL, version = 2)), objects)
  rounded <- names(objects) == "time_series" # R itself writes 15 digits of it
  expect_identical(unserialize(in_memory(all, ascii = TRUE))[!rounded], objects[!rounded])
})

test_that("S4 objects and attributes share what they hold", {
  setClass("PwHolder", representation(values = "numeric", note = "character"), where = globalenv())
  on.exit(invisible(removeClass("PwHolder", where = globalenv())))
  x <- new("PwHolder", values = runif(1e4), note = "kept")
  shared <- share(x)
  expect_identical(shared, x)
  expect_true(validObject(shared))
  expect_lt(wire(shared), 1000)
  expect_identical(sent(shared)@values, x@values)
  y <- structure(1:3, big = runif(1e4))
  expect_lt(wire(share(y)), 1000)
  expect_identical(sent(share(y)), y)
  formula <- structure(runif(1e4), terms = y ~ x) # its environment travels as always
  expect_equal(sent(share(formula)), formula, ignore_attr = TRUE)
})

test_that("attributes that are shared stay where they were, whatever their names", {
  long <- paste0("n", 1:1e4)
  setClass("PwNamed", representation(names = "character", dim = "numeric", x = "list"), where = globalenv())
  on.exit(invisible(removeClass("PwNamed", where = globalenv())))
  data <- structure(runif(1e4), before = 1)
  attr(data, ".Data") <- long # which R takes for the vector itself where it is a slot
  objects <- list(
    data = structure(data, after = 2), small = structure(1:3, before = 1, of = list(long, 2), after = long),
    slots = new("PwNamed", names = long, dim = as.numeric(1:1e4), x = list(long)),
    names = structure(as.list(1:1e4), before = 1, names = long, after = 2), one = array(1:1e4, 1e4, list(long)),
    matrix = matrix(0, 1e4, 2, dimnames = list(long, c("a", "b"))), rows = data.frame(a = 1:1e4, row.names = long),
    turned = data.frame(a = 1:1e4)[1e4:1, , drop = FALSE]
  )
  for (name in names(objects)) {
    shared <- share(objects[[name]])
    expect_true(is_shared(shared), info = name)
    expect_true(identical(shared, objects[[name]], attrib.as.set = FALSE), info = name)
    expect_true(identical(sent(shared), objects[[name]], attrib.as.set = FALSE), info = name)
  }
})

test_that("attributes of attributes take no longer for each level than for the first", {
  nested <- structure(1:3, of = runif(1e4))
  for (level in 1:30) nested <- structure(1:3, of = nested, level = level)
  expect_lt(system.time(shared <- share(nested))[["elapsed"]], 5) # twice as long a level: 40 s
  expect_lt(wire(shared), 6000)
  expect_identical(sent(shared), nested)
  small <- structure(1:3, of = structure(1, of = "nothing to share"))
  expect_identical(share(small), small)
})

test_that("strings keep their encodings, and NA, and changes", {
  latin <- "caf\xe9"
  Encoding(latin) <- "latin1"
  bytes <- "\xff\xfe"
  Encoding(bytes) <- "bytes"
  x <- rep(c(latin, bytes, "plain", NA, "", "\u00fc"), 1000)
  shared <- share(x)
  expect_identical(shared, x)
  expect_identical(Encoding(sent(shared))[1:6], c("latin1", "bytes", "unknown", "unknown", "unknown", "UTF-8"))
  y <- sent(shared)
  y[2] <- "other"
  expect_identical(y[c(1, 2, 3)], c(x[1], "other", "plain"))
  expect_identical(shared, x)
  expect_identical(sent(y), y)
  expect_gt(wire(y), 10000)
  expect_identical(sort(sent(shared)[c(3, 6)]), sort(x[c(3, 6)]))
  expect_identical(unique(sent(shared)), unique(x))
  expect_identical(match("plain", sent(shared)), 3L)
})

test_that("strings that are no text in the locale stay the same bytes", {
  code <- c(
    "library(pagewise)",
    "text <- lapply(list(c(0x63, 0xc3, 0xa9), c(0x63, 0xe9), 0x81), function(b) rawToChar(as.raw(b)))",
    "x <- rep(c(unlist(text), 'plain', NA), 1000)",
    "same <- function(y) identical(y, x) && identical(lapply(y[1:4], charToRaw), lapply(x[1:4], charToRaw))",
    "options(pagewise.handles = TRUE); y <- unserialize(serialize(share(x), NULL))",
    "Encoding(x) <- 'latin1'; latin <- same(share(x)); Encoding(x) <- 'unknown'",
    "cat('same:', same(share(x)), same(y), latin, nrow(shared_info(y)))"
  )
  for (locale in c("C", "C.UTF-8")) {
    expect_match(fresh_r(code, environment = paste0("LC_ALL=", locale)), "same: TRUE TRUE TRUE 1", all = FALSE,
      info = locale)
  }
})

# As vectors of vroom and arrow do. fresh_strings.c has the class.
test_that("strings that are made whenever they are asked for are kept while they are written", {
  out <- fresh_r(c(
    "library(pagewise)", sprintf("dyn.load('%s')", compiled("fresh_strings")),
    "options(pagewise.handles = TRUE); x <- share(.Call('fresh_strings', 3e5))",
    "cat('same:', identical(unserialize(serialize(x, NULL)), sprintf('string %d', 0:299999)))"
  ))
  expect_match(out, "same: TRUE", all = FALSE)
})

# As memory-mapped columns and lazy slices of other packages do. windows.c has the class.
test_that("a vector of another package that shows a part of a shared one is not taken for it", {
  out <- fresh_r(c(
    "library(pagewise)", sprintf("dyn.load('%s')", compiled("windows")),
    "x <- share(as.numeric(1:10000)); part <- .Call('window_of', x, c(5000L, 1000L))",
    "cat('not shared:', !is_shared(part), nrow(shared_info(part)), vector_cost(part)$bytes)",
    "cat('\\nname:', tryCatch(shared_name(part), error = conditionMessage))",
    "y <- share(list(part))[[1]]", "z <- map_shared(shared_name(y))",
    "cat('\\nshared:', is_shared(y), length(z), identical(z, as.numeric(5001:6000)), sum(x[1:10000]))"
  ))
  expect_match(out, "not shared: TRUE 0 8000", all = FALSE)
  expect_match(out, "name: `x` is not shared: call share\\(x\\) first", all = FALSE)
  expect_match(out, "shared: TRUE 1000 TRUE 50005000", all = FALSE)
})

test_that("a vector that R has wrapped for its attributes is still a shared one", {
  for (x in list(share(runif(1e4)), share(1:10000 + 0L), share(rep(c(TRUE, NA), 5000)), share(as.character(1:10000)))) {
    y <- x
    attr(y, "unit") <- "m"
    expect_true(is_shared(y), info = typeof(x))
    expect_identical(shared_info(y)$object, shared_info(x)$object)
    expect_lt(wire(y), 600)
    expect_identical(as.vector(y), as.vector(x))
  }
})

test_that("everyday code reads shared vectors as it reads others", {
  set.seed(5)
  plain <- data.frame(a = runif(5000), b = sample(c(letters, NA), 5000, TRUE), c = sample(5000L),
    d = factor(sample(LETTERS, 5000, TRUE)))
  shared <- sent(share(plain))
  expect_identical(plain[order(plain$b, plain$a), ], shared[order(shared$b, shared$a), ])
  expect_identical(aggregate(a ~ b, plain, mean), aggregate(a ~ b, shared, mean))
  expect_identical(merge(plain, plain[1:100, c("c", "a")], by = "c"), merge(shared, plain[1:100, c("c", "a")], by = "c"))
  expect_identical(tapply(plain$a, plain$d, sum), tapply(shared$a, shared$d, sum))
  expect_identical(rbind(plain, plain), rbind(shared, shared))
  expect_identical(coef(lm(a ~ d, plain)), coef(lm(a ~ d, shared)))
  expect_identical(paste(plain$b, plain$c), paste(shared$b, shared$c))
  expect_identical(summary(plain), summary(shared))
  expect_identical(cumsum(plain$a), cumsum(shared$a))
  expect_identical(plain$c %in% 1:10, shared$c %in% 1:10)
  expect_identical(range(shared$c), range(plain$c))
  shared$a[plain$a > 0.5] <- NA
  shared$b[is.na(shared$b)] <- "none"
  levels(shared$d)[1] <- "first"
  plain$a[plain$a > 0.5] <- NA
  plain$b[is.na(plain$b)] <- "none"
  levels(plain$d)[1] <- "first"
  expect_identical(shared, plain)
  expect_identical(sent(shared), plain)
})

test_that("a handle is small", {
  expect_lt(wire(share(runif(1e6))), 250)
  expect_lt(wire(share(as.data.frame(matrix(runif(2e5), ncol = 20)))), 4000)
  expect_identical(wire(share(1:3)), wire(1:3))
})

test_that("writes are private, and cost the pages written", {
  skip_without_page_table()
  x <- share(runif(1e6))
  original <- x + 0
  y <- sent(x)
  y[1:10000] <- 0 # 1 % : 80 kB
  expect_identical(x, original)
  expect_lte(shared_info(y)$written, 1.2 * 80000 + 8192)
  expect_gte(shared_info(y)$written, 80000 - 8192)
  z <- y # a copy of a vector that was changed
  z[500000] <- -1
  expect_lte(shared_info(z)$written, 1.2 * 80000 + 3 * 8192)
  expect_identical(y[500000], original[500000])
  expect_identical(z[c(1, 500000, 1e6)], c(0, -1, original[1e6]))
  expect_true(shared_info(z)$changed)
  expect_false(shared_info(x)$changed)
  expect_lt(wire(x), 250)
  expect_gt(wire(z), 8e6)
  expect_identical(sent(z), z + 0)
  expect_lt(wire(share(z)), 250)
  expect_identical(share(z), z + 0)
  expect_lte(vector_cost(z)$own, 1.2 * 80000 + 3 * 8192)
})

test_that("subsets are those of ordinary vectors", {
  at <- list(1:5, c(1, NA, 2.9), -1, 0, c(TRUE, NA), 1e6, c(5000L, NA, 5001L), integer(), NA, NULL, c(-1, -5000))
  for (x in list(runif(5000), sample(5000L), rep(c(TRUE, NA), 2500), complex(5000, 1:5000), as.raw(rep(1:50, 100)),
    as.character(1:5000))) {
    shared <- share(x)
    for (i in at) {
      expect_identical(shared[i], x[i])
    }
  }
  m <- matrix(runif(1e4), 100)
  expect_identical(share(m)[3, ], m[3, ])
  expect_identical(share(m)[cbind(1:3, 4:6)], m[cbind(1:3, 4:6)])
  expect_identical(share(m) %*% share(m), m %*% m)
})

test_that("what cannot be shared is refused, and where it is", {
  gc()
  before <- objects_open()
  expect_error(share(globalenv()), "`x` is an environment")
  expect_error(share(list(a = 1, b = list(runif(1e4), q = new.env()))), "x\\$b\\$q is an environment")
  expect_error(share(list(1, mean)), "x\\[\\[2\\]\\] is a function")
  expect_identical(objects_open(), before)
})

test_that("what is shared already is not written again", {
  x <- share(runif(1e5))
  both <- share(list(x, y = runif(1e5)))
  info <- shared_info(both)
  expect_identical(info$object[[1]], shared_info(x)$object)
  expect_false(info$object[[2]] == info$object[[1]])
  expect_identical(shared_info(share(x))$object, shared_info(x)$object)
  same <- runif(1e5)
  expect_identical(sum(shared_info(share(list(same, same)))$bytes), 1.6e6)
})

test_that("memory ends with the last variable", {
  gc()
  before <- objects_open()
  x <- share(runif(1e5))
  y <- sent(x)
  rm(x)
  gc()
  expect_identical(objects_open(), before + 1L)
  expect_length(y[1:3], 3)
  rm(y)
  gc()
  expect_identical(objects_open(), before)
})

test_that("lost views and objects are collected in time", {
  skip_without_page_table()
  x <- share(runif(4e6)) # 32 MB
  pages <- function() {
    lines <- readLines("/proc/self/smaps_rollup")
    1024 * sum(as.numeric(gsub("\\D", "", grep("^(Private_Dirty|Swap):", lines, value = TRUE))))
  }
  gc()
  start <- pages()
  most <- 0
  for (i in 1:40) { # 1.28 GB, of which R's own collector sees nothing
    y <- x
    y[] <- i
    most <- max(most, pages() - start)
  }
  expect_lt(most, 650e6)
  most <- 0
  for (i in 1:30) {
    y <- share(x + 0)
    most <- max(most, objects_open())
  }
  expect_lt(most, 16)
})

test_that("objects that are garbage leave a program its descriptors", {
  skip_if_not(nzchar(Sys.which("prlimit")), "no prlimit")
  out <- fresh_r(c(
    "library(pagewise); x <- runif(1000); most <- 0; mine <- tempfile(); writeLines('mine', mine)",
    "for (i in 1:1500) {", "  y <- share(x)", "  most <- max(most, length(list.files('/proc/self/fd')))",
    "  stopifnot(readLines(mine) == 'mine', identical(y, x))", "}",
    "cat('few:', most < 400)" # of 1024: a quarter, an eighth and R's own
  ), before = c("prlimit", "--nofile=1024", "--"))
  expect_match(out, "few: TRUE", all = FALSE)
})

test_that("garbage makes room where what is in use takes nearly all descriptors", {
  skip_if_not(nzchar(Sys.which("prlimit")), "no prlimit")
  skip_if_not_installed("parallel")
  out <- fresh_r(c(
    "library(pagewise); x <- runif(1000); mine <- tempfile(); writeLines('mine', mine)",
    "cl <- parallel::makePSOCKcluster(1)",
    "files <- lapply(1:115, function(i) file(mine, 'r')); kept <- lapply(1:140, function(i) share(x + i))",
    "for (i in 1:100) y <- share(x)",
    "for (i in 1:100) z <- parallel::clusterEvalQ(cl, kept <- pagewise::share(c(1, 2, 3) * rep(1, 999)))[[1]]",
    "cat('same:', identical(y, x), identical(z, rep(c(1, 2, 3), 333)), is_shared(z), identical(kept[[140]], x + 140),",
    "  readLines(files[[115]]))"
  ), before = c("prlimit", "--nofile=300", "--"), environment = paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))
  expect_match(out, "same: TRUE TRUE TRUE TRUE mine", all = FALSE)
})

test_that("workers see the same memory, and change it for themselves", {
  skip_without_page_table()
  cl <- local_workers(2)
  x <- share(runif(2e6)) # 16 MB
  expected <- c(sum(x), x[2e6])
  found <- parallel::clusterCall(cl, function(v) {
    private <- function() {
      lines <- readLines("/proc/self/smaps_rollup")
      1024 * sum(as.numeric(gsub("\\D", "", grep("^(Private_Dirty|Swap):", lines, value = TRUE))))
    }
    gc()
    private()
    start <- private()
    before <- c(sum(v), v[2e6])
    read <- private() - start
    v[1:20000] <- 0 # R copies here, as the caller has the vector as well: 1 %, 160 kB
    list(before, read, private() - start, v[c(1, 2e6)])
  }, x)
  for (worker in found) {
    expect_identical(worker[[1]], expected)
    expect_lt(worker[[2]], 1e6) # 16 MB were read
    expect_lt(worker[[3]], 1.5e6)
    expect_identical(worker[[4]], c(0, expected[2]))
  }
  expect_identical(sum(x), expected[1])
  expect_gte(shared_info(x)$processes, 1L)
})

test_that("workers hand their own objects back by handle", {
  cl <- local_workers(1)
  back <- parallel::clusterEvalQ(cl, {
    kept <- pagewise::share(runif(1e5))
    list(kept, sum(kept))
  })[[1]]
  expect_false(shared_info(back[[1]])$maker == Sys.getpid())
  parallel::stopCluster(cl)
  expect_identical(sum(back[[1]]), back[[2]])
})

test_that("objects outlive whoever shared them", {
  file <- tempfile()
  read <- sharer(file, "list(a = runif(1e5), b = as.character(1:5000))")
  set.seed(1)
  original <- runif(1e5)
  expect_identical(shared_info(read)$processes[[1]], 2L)
  kill_and_wait(read[[2]])
  expect_identical(read[[1]]$a, original)
  expect_identical(read[[1]]$b, as.character(1:5000))
  expect_identical(readRDS(file)[[1]]$a, original) # from this process, by its name
  expect_identical(sent(read)[[1]]$a, original)
  cl <- local_workers(1)
  worker <- parallel::clusterCall(cl, function(x) {
    assign("kept", x, globalenv())
    sum(x)
  }, read[[1]]$a)
  expect_identical(worker[[1]], sum(original))
  rm(read)
  gc()
  expect_identical(readRDS(file)[[1]]$a[1:5], original[1:5]) # now only the worker has it
  parallel::stopCluster(cl)
  gc()
  for (i in 1:600) {
    gone <- tryCatch(readRDS(file), error = conditionMessage)
    if (is.character(gone)) break
    rm(gone)
    gc()
    Sys.sleep(0.1)
  }
  # Where a process of this user hides what it has open, nobody can tell whether the object is gone.
  expect_match(gone, if (processes_are_hidden()) "could not be looked for" else "is gone: process")
})

# As daemons do with all descriptors that they do not know.
close_objects <- function() {
  fds <- list.files("/proc/self/fd", full.names = TRUE)
  ours <- basename(fds[grepl("^/memfd:pagewise-shared-", Sys.readlink(fds))])
  parallel:::closeFD(as.integer(ours))
  length(ours)
}

test_that("an object whose descriptor the program has closed can be opened again", {
  skip_if_not_installed("parallel")
  cl <- local_workers(1)
  name <- parallel::clusterCall(cl, function() {
    assign("kept", pagewise::share(as.numeric(1:1e5)), globalenv())
    pagewise::shared_name(kept)
  })[[1]]
  x <- map_shared(name)
  gc()
  expect_gte(close_objects(), 1L)
  expect_identical(x, as.numeric(1:1e5)) # what is mapped stays
  expect_identical(sent(x), x) # by value: nobody could open it here
  expect_gt(wire(x), 8e5)
  y <- map_shared(name)
  expect_identical(y, x)
  expect_lt(wire(y), 250)
  expect_lt(wire(x), 250) # the same object, with a descriptor again
  expect_identical(objects_open(), 1L)
  rm(x)
  gc()
  expect_identical(objects_open(), 1L)
  expect_identical(map_shared(name), y)
  expect_identical(shared_info(y)$processes, 2L)
})

test_that("an object that nobody has open any more is gone, also where it is still mapped", {
  skip_if_not_installed("parallel")
  x <- share(as.numeric(1:1e5))
  name <- shared_name(x)
  close_objects()
  expect_error(map_shared(name), if (processes_are_hidden()) "could not be looked for" else "is gone.*closed its descriptor")
  expect_identical(sum(x), 5000050000)
})

test_that("a killed worker breaks nobody and leaves nothing", {
  before <- list.files("/dev/shm")
  cl <- local_workers(2)
  x <- share(runif(1e5))
  pids <- unlist(parallel::clusterCall(cl, function(x) {
    assign("kept", x, globalenv())
    kept[1] <<- 0
    Sys.getpid()
  }, x))
  expect_identical(shared_info(x)$processes, 3L)
  kill_and_wait(pids[[1]])
  expect_identical(shared_info(x)$processes, 2L)
  expect_identical(parallel::clusterCall(cl[2], function() sum(kept))[[1]], sum(x) - x[[1]])
  expect_identical(sent(x), x + 0)
  left <- file.path("/dev/shm", setdiff(list.files("/dev/shm"), before))
  # A folder is of a `pagewise run` beside us, and a semaphore of another program's.
  left <- left[!dir.exists(left) & !startsWith(basename(left), "sem.")]
  expect_identical(left, character())
})

test_that("forked children read, write and share", {
  skip_if_not_installed("parallel")
  x <- share(runif(1e5))
  original <- x + 0
  found <- parallel::mclapply(1:3, function(i) {
    before <- sum(x)
    x[i] <- 0
    mine <- share(x) # ends with this child, and so comes back by value
    list(before, mine, sum(sent(share(1:1e5))), wire(mine))
  }, mc.cores = 2)
  for (i in 1:3) {
    expect_identical(found[[i]][[1]], sum(original))
    expected <- original
    expected[i] <- 0
    expect_identical(found[[i]][[2]], expected)
    expect_equal(found[[i]][[3]], 5000050000)
    expect_gt(found[[i]][[4]], 8e5)
  }
  expect_identical(x, original)
  expect_lt(length(parallel::mclapply(1:2, function(i) in_memory(x), mc.cores = 2)[[1]]), 250)
})

test_that("what a forked child received comes back by value: the child may be the last that has it", {
  skip_if_not_installed("parallel")
  file <- tempfile()
  maker <- sharer(file)[[2]]
  gc()
  child <- parallel::mcparallel({
    x <- readRDS(file)[[1]]
    kill_and_wait(maker)
    x
  })
  set.seed(1)
  expect_identical(parallel::mccollect(child)[[1]], runif(1e5))
})

test_that("a forked child that loads the package itself sends what it shares by value", {
  skip_if_not_installed("parallel")
  out <- fresh_r(c(
    "x <- parallel::mclapply(1:2, function(i) pagewise::share(rep(i + 0, 1e4)))",
    "cat('same:', identical(x, list(rep(1, 1e4), rep(2, 1e4))), 'pagewise' %in% loadedNamespaces())"
  ))
  expect_match(out, "same: TRUE FALSE", all = FALSE)
})

test_that("damaged, truncated and forged handles are errors", {
  x <- share(runif(1e5))
  bytes <- in_memory(x)
  start <- handle_in(bytes)
  set.seed(2)
  for (at in start - 1 + 1:80) {
    bad <- bytes
    bad[at] <- xor(bad[at], as.raw(2^sample(0:7, 1)))
    expect_error(unserialize(bad), "handle of a shared object is damaged")
  }
  state <- bytes[start - 1 + 1:80]
  again <- function(handle) {
    count <- as.raw(c(0, 0, 0, length(handle)))
    c(bytes[seq_len(start - 5)], count, handle, bytes[-seq_len(start + 79)])
  }
  expect_identical(unserialize(again(state)), x)
  for (size in c(0, 1, 79, 81, 200)) {
    expect_error(unserialize(again(rep(state, 3)[seq_len(size)])), "damaged")
  }
  # Of a logical vector instead of numbers.
  whole <- in_memory(share(rep(TRUE, 1e5)))
  other <- whole
  place <- handle_in(whole)
  other[place - 1 + 1:80] <- state
  expect_error(unserialize(other), "forged, or of another type")
  expect_identical(sum(x[1:10]), sum(x[1:10]))
})

# The check at the end of a handle, as core/src/share/exchange.c has it: FNV-1a of 64 bits, here in
# pieces of 16 bits, because R has no integers of 64.
fnv <- function(bytes) {
  sum <- c(0x2325, 0x8422, 0x9ce4, 0xcbf2)
  prime <- c(0x01b3, 0, 0x0100, 0)
  for (byte in as.integer(bytes)) {
    sum[1] <- bitwXor(sum[1], byte)
    product <- numeric(4)
    for (i in 1:4) for (j in seq_len(5 - i)) product[i + j - 1] <- product[i + j - 1] + sum[i] * prime[j]
    for (i in 1:3) {
      product[i + 1] <- product[i + 1] + product[i] %/% 65536
      product[i] <- product[i] %% 65536
    }
    product[4] <- product[4] %% 65536
    sum <- product
  }
  as.raw(rbind(sum %% 256, sum %/% 256))
}

test_that("handles of other versions, machines and users say so", {
  skip_if(.Platform$endian != "little")
  x <- share(runif(1e5))
  bytes <- in_memory(x)
  start <- handle_in(bytes)
  forged <- function(at, value) {
    handle <- bytes[start - 1 + 1:80]
    handle[at] <- as.raw(value)
    handle[73:80] <- fnv(handle[1:72])
    bad <- bytes
    bad[start - 1 + 1:80] <- handle
    bad
  }
  expect_identical(unserialize(forged(1, 0x50)), x) # nothing changed: the check is right
  expect_error(unserialize(forged(5, 2)), "another version of pagewise")
  expect_error(unserialize(forged(9:12, 1:4)), "another kind of processor")
  expect_error(unserialize(forged(13, 0)), "made by R [0-9]+\\.0, and this is R")
  expect_error(unserialize(forged(17:20, c(1, 2, 3, 4))), "made by another user \\(number 67305985\\)")
  expect_error(unserialize(forged(21, 9)), "forged")
  expect_error(unserialize(forged(25, bitwXor(as.integer(bytes[start + 24]), 1))), "another machine")
  expect_error(unserialize(forged(33, bitwXor(as.integer(bytes[start + 32]), 1))),
    if (processes_are_hidden()) "could not be looked for" else "is gone")
})

# Of the 80 bytes that are ours. R's words around them are R's to check: it ends in a segmentation fault on
# some changes there, for its own raw and compact vectors as well.
test_that("no change of a handle ends the process", {
  out <- fresh_r(c(
    "library(pagewise); options(pagewise.handles = TRUE)", "set.seed(3)",
    "x <- share(list(runif(1e4), as.character(1:2000)))", "bytes <- serialize(x, NULL)",
    "starts <- grepRaw('PWSH', bytes, fixed = TRUE, all = TRUE)",
    "for (i in 1:3000) {",
    "  bad <- bytes", "  at <- sample(starts, 1) + sample(0:79, sample(3, 1))",
    "  bad[at] <- as.raw(sample(0:255, length(at), TRUE))",
    "  got <- tryCatch(suppressWarnings(unserialize(bad)), error = function(e) NULL)",
    "}", "stopifnot(length(starts) == 2, identical(unserialize(bytes), x))", "cat('done\\n')"
  ))
  expect_identical(utils::tail(out, 1), "done")
  out <- fresh_r(c(
    "library(pagewise); options(pagewise.handles = TRUE)", "x <- share(list(runif(1e4), as.character(1:2000)))", "bytes <- serialize(x, NULL)",
    "for (n in seq_along(bytes) - 1L) stopifnot(inherits(try(unserialize(bytes[seq_len(n)]), TRUE), 'try-error'))",
    "cat('done\\n')"
  ))
  expect_identical(utils::tail(out, 1), "done")
})

test_that("anything else in place of a handle is refused", {
  for (x in list(share(runif(1e4)), share(as.character(1:5000)))) {
    bytes <- in_memory(x)
    start <- handle_in(bytes)
    for (other in list(NULL, 1:3, "text", list(1), as.raw(1:80), as.raw(1:3), raw(), globalenv(), mean, quote(a), runif(10))) {
      item <- serialize(other, NULL)[-(1:23)] # without the format's header
      expect_error(unserialize(c(bytes[seq_len(start - 9)], item, bytes[-seq_len(start + 79)])), "damaged")
    }
  }
})

test_that("other users cannot read an object", {
  skip_if_not(Sys.info()[["effective_user"]] == "root" && nzchar(Sys.which("setpriv")), "not root")
  x <- share(runif(1e5))
  # R CMD check keeps the session's own folder below others that nobody else may enter.
  folder <- tempfile("pagewise-open", tmpdir = "/tmp")
  dir.create(folder)
  Sys.chmod(folder, "755")
  on.exit(unlink(folder, recursive = TRUE))
  file.copy(file.path(.libPaths(), "pagewise")[file.exists(file.path(.libPaths(), "pagewise"))][[1]], folder,
    recursive = TRUE)
  by_handle(saveRDS(x, file.path(folder, "handle.rds")))
  script <- file.path(folder, "read.R")
  fds <- list.files("/proc/self/fd", full.names = TRUE)
  mine <- sub("self", Sys.getpid(), fds[grepl("pagewise-shared", Sys.readlink(fds))])
  writeLines(c(
    sprintf(".libPaths('%s')", folder),
    sprintf("cat(tryCatch(readRDS('%s/handle.rds'), error = conditionMessage), '\\n')", folder),
    sprintf("cat(tryCatch(length(suppressWarnings(file('%s', 'rb'))), error = function(e) 'closed'), '\\n')", mine)
  ), script)
  out <- suppressWarnings(system2("setpriv", c("--reuid=65534", "--regid=65534", "--clear-groups",
    file.path(R.home("bin"), "Rscript"), "--vanilla", script), stdout = TRUE, stderr = TRUE, env = "TMPDIR=/tmp"))
  expect_match(out, "made by another user \\(number 0\\)", all = FALSE)
  expect_identical(sum(grepl("closed", out)), length(mine))
})

test_that("limits are errors or plain copies", {
  skip_if_not(nzchar(Sys.which("prlimit")), "no prlimit")
  code <- c("library(pagewise)", "x <- runif(1e5)",
    "cat(tryCatch({ for (i in 1:400) assign(paste0('x', i), share(x)); 'shared' }, error = conditionMessage))")
  expect_match(fresh_r(code, before = c("prlimit", "--fsize=65536", "--")), "could not be written", all = FALSE)
  few <- fresh_r(code, before = c("prlimit", "--nofile=300", "--"))
  expect_match(few, "no descriptor.*shared already stays as it is.*gc\\(\\).*ulimit -n", all = FALSE)
  # More vectors than a process should have mappings.
  x <- lapply(1:17000, function(i) rep(i + 0, 512))
  expect_warning(shared <- share(x), "were not shared")
  expect_identical(shared, x)
  expect_identical(sent(shared)[16990:17000], x[16990:17000])
  # Those that are garbage do not stand in the way.
  rm(shared)
  expect_no_warning(y <- share(runif(1e5)))
  expect_identical(nrow(shared_info(y)), 1L)
})

test_that("a kernel with larger pages is named as what is in the way", {
  skip_if_not(all(nzchar(Sys.which(c("cc", "make")))), "no compiler")
  # A library that tells of pages of 64 KB.
  source <- tempfile("larger_pages", fileext = ".c")
  library <- sub("c$", "so", source)
  writeLines(c(
    "#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <sys/auxv.h>",
    "unsigned long getauxval(unsigned long type) {",
    "    unsigned long (*next)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, \"getauxval\");",
    "    return type == AT_PAGESZ ? 65536 : next(type);",
    "}"
  ), source)
  system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", library, source), stdout = FALSE, stderr = FALSE)
  expect_true(file.exists(library))
  code <- c("x <- runif(1e5)", "cat('said:', tryCatch(pagewise::share(x), error = conditionMessage), length(x))")
  out <- fresh_r(code, environment = paste0("LD_PRELOAD=", library))
  expect_match(out, "said: nothing can be shared here: .*pages of 4 KB.*getconf PAGESIZE.* 100000$", all = FALSE)
})

test_that("sharing and pagewise_on() get along", {
  local_pagewise("share")
  x <- share(runif(1e6))
  y <- x
  y[1] <- 0
  z <- sent(x)
  z[2] <- 0
  gc()
  expect_identical(y[-1], x[-1])
  expect_identical(z[-2], x[-2])
  out <- fresh_r(c("library(pagewise); options(pagewise.handles = TRUE)",
    "x <- share(runif(1e6)); y <- unserialize(serialize(x, NULL))",
    "y[1] <- 0; gc(); cat(identical(x[-1], y[-1]), length(serialize(x, NULL)) < 250)"),
    before = c(pagewise_command(), "run", "--quiet", "--"))
  expect_match(out, "TRUE TRUE", all = FALSE)
})

test_that("shared_info says what is shared", {
  d <- share(data.frame(a = runif(1e4), b = as.character(1:1e4)))
  info <- shared_info(d)
  expect_identical(info$vector, c("d$a", "d$b"))
  expect_identical(info$type, c("double", "character"))
  expect_identical(info$length, c(1e4, 1e4))
  expect_identical(info$maker, rep(Sys.getpid(), 2))
  expect_output(print(info), "shared in 2 vectors")
  expect_output(print(info), "d\\$b")
  expect_output(print(shared_info(1:3)), "nothing is shared")
  expect_identical(nrow(shared_info(list())), 0L)
})

test_that("a library that new R processes do not know of is said, once", {
  own <- dirname(getNamespaceInfo("pagewise", "path"))
  code <- c("library(pagewise)", "x <- share(runif(1e5)); y <- share(runif(1e5)); cat('done')")
  lines <- fresh_r(code, environment = "R_LIBS=")
  expect_length(grep("would not find pagewise", lines), 1)
  lines <- fresh_r(code, environment = paste0("R_LIBS=", own))
  expect_length(grep("would not find pagewise", lines), 0)
})
