# R and Python share vectors by name. The Python side is partner.py.
python <- local({
  found <- NULL
  function() {
    tree <- Sys.getenv("PAGEWISE_TREE")
    core <- file.path(tree, "build", "lib", "libpagewise.so.0")
    skip_if_not(nzchar(tree) && file.exists(core), "needs the source tree, with the core built")
    if (is.null(found)) {
      candidates <- c(Sys.glob(file.path(tree, "build", "python", "*", "bin", "python")), "/usr/bin/python3", "python3")
      works <- function(one) {
        nzchar(Sys.which(one)) && suppressWarnings(system2(one, c("-c", shQuote("import numpy")), stdout = FALSE, stderr = FALSE)) == 0
      }
      found <<- c(Filter(works, candidates), "")[[1]]
    }
    skip_if_not(nzchar(found), "needs a Python with NumPy")
    found
  }
})

words_for_python <- function(...) {
  c("-W", "error", shQuote(c(normalizePath(test_path("partner.py")), vapply(list(...), as.character, ""))))
}

environment_of_python <- function() {
  tree <- Sys.getenv("PAGEWISE_TREE")
  c(paste0("PYTHONPATH=", shQuote(file.path(tree, "python", "src"))), "PYTHONDONTWRITEBYTECODE=1",
    "LD_LIBRARY_PATH=", # R's has another libpython in it, for one that is not the system's
   
    paste0("PAGEWISE_CORE=", shQuote(file.path(tree, "build", "lib", "libpagewise.so.0"))))
}

in_python <- function(...) {
  suppressWarnings(system2(python(), words_for_python(...), stdout = TRUE, stderr = TRUE, env = environment_of_python()))
}

wait_for <- function(file) {
  for (i in 1:600) {
    if (file.exists(file)) return(readLines(file))
    Sys.sleep(0.05)
  }
  stop("the Python process did not answer")
}

# A Python process that has something until it is asked what it sees, or killed.
python_holder <- function(..., frame = parent.frame()) {
  file <- tempfile("name")
  go <- tempfile("go")
  system2(python(), words_for_python(..., file, go), wait = FALSE, stderr = FALSE, env = environment_of_python())
  lines <- wait_for(file)
  pid <- as.integer(lines[[2]])
  do.call(on.exit, list(bquote(tools::pskill(.(pid), tools::SIGKILL)), add = TRUE), envir = frame)
  list(name = lines[[1]], pid = pid, ask = function() {
    file.create(go)
    wait_for(paste0(go, ".said"))
  }, end = function() file.create(go))
}

gone <- "a shared (object|array) is gone"

test_that("Python reads vectors of R, and what it writes is its own", {
  set.seed(3)
  vectors <- list(
    float64 = c(runif(5000), NaN, Inf, -Inf, -0), int32 = c(1:5000, -1L, .Machine$integer.max),
    int32 = rep(c(TRUE, FALSE), 3000), complex128 = complex(3000, 1:3000, -1), uint8 = as.raw(rep(0:255, 20))
  )
  for (i in seq_along(vectors)) {
    x <- share(vectors[[i]])
    name <- shared_name(x)
    said <- in_python("read", name)
    expect_identical(said[[1]], sprintf("%s %d 1 True 2 0", names(vectors)[[i]], length(x)))
    expect_identical(said[[2]], "4096 1 True") # one page of its own
    expect_identical(x, vectors[[i]])
    expect_false(shared_info(x)$changed)
    expect_identical(shared_info(x)$processes, 1L) # that one has ended
  }
  x <- share(c(-0, 1.5, runif(5000)))
  expect_identical(as.numeric(in_python("values", shared_name(x))), c(x)) # as shortest decimals
})

test_that("R reads arrays of Python, and what it writes is its own", {
  n <- 0:99999
  expected <- list(
    float64 = c(n + 0, NaN, Inf, -Inf, -0), int32 = c(n, -1L, .Machine$integer.max, NA), complex128 = n * (1 + 2i),
    uint8 = as.raw(n %% 256)
  )
  for (kind in names(expected)) {
    partner <- python_holder("hold", kind)
    x <- map_shared(partner$name)
    expect_identical(x, expected[[kind]], info = kind)
    expect_true(is_shared(x))
    info <- shared_info(x)
    expect_identical(info$processes, 2L)
    expect_identical(info$maker, partner$pid)
    expect_identical(info$written, 0)
    y <- x
    y[[2]] <- y[[5]]
    expect_identical(shared_info(y)$written, 4096)
    x[[1]] <- x[[3]]
    expect_true(shared_info(x)$changed)
    expect_identical(shared_info(x)$written, 4096)
    expect_error(shared_name(x), "was changed", class = "pagewise_argument_error")
    expect_identical(map_shared(partner$name), expected[[kind]])
    expect_match(partner$ask(), "^0([+]0j)? ") # its first element
    rm(x, y)
  }
})

test_that("missing values are what the help page says", {
  x <- share(c(NA_real_, NaN, runif(1000)))
  expect_identical(in_python("values", shared_name(x))[1:2], c("nan", "nan"))
  partner <- python_holder("copy-again", shared_name(x))
  back <- map_shared(partner$name)
  expect_identical(is.nan(back[1:2]), c(FALSE, TRUE)) # NA went through NumPy as it was
  integers <- share(c(NA, 1:2000))
  expect_identical(in_python("values", shared_name(integers))[[1]], "-2147483648")
  logicals <- share(rep(c(NA, TRUE, FALSE), 1000))
  expect_identical(in_python("values", shared_name(logicals))[1:3], c("-2147483648", "1", "0"))
  partner <- python_holder("name-again", shared_name(logicals))
  expect_identical(map_shared(partner$name), rep(c(NA, TRUE, FALSE), 1000)) # still logical
})

test_that("a vector lives as long as somebody has it, whoever shared it, and is freed after kill -9", {
  partner <- python_holder("hold", "long")
  x <- map_shared(partner$name)
  kill_and_wait(partner$pid)
  expect_identical(sum(x), sum(0:999999 + 0))
  expect_identical(shared_info(x)$processes, 1L)
  expect_identical(in_python("read", partner$name)[[1]], "float64 1000000 1 True 2 0") # by this process
  invisible(gc())
  before <- objects_open()
  rm(x)
  invisible(gc())
  expect_identical(objects_open(), before - 1L)
  expect_error(map_shared(partner$name), gone, class = "pagewise_share_error")
  expect_match(in_python("read", partner$name), paste("ShareError:", gone))

  x <- share(runif(1e5))
  total <- sum(x)
  name <- shared_name(x)
  partner <- python_holder("name-again", name)
  rm(x)
  invisible(gc())
  expect_identical(sum(map_shared(name)), total) # from Python
  invisible(gc())
  kill_and_wait(partner$pid)
  expect_error(map_shared(name), gone, class = "pagewise_share_error")
})

test_that("vectors of the other runtime are sent to workers as one's own are", {
  partner <- python_holder("hold", "long")
  x <- map_shared(partner$name)
  expect_lt(wire(x), 1000)
  expect_identical(sent(x), x)
  cl <- local_workers()
  expect_identical(parallel::clusterCall(cl, function(x) c(sum(x), pagewise::shared_info(x)$processes), x)[[1]],
    c(sum(x), 3))
  expect_match(in_python("worker", shared_name(share(runif(1e5) * 0 + 1))), "^100000 100000.0 1 [34]$")
})

test_that("what has no name is refused, with what to do", {
  x <- share(runif(5000))
  expect_error(shared_name(runif(5000)), "call share\\(x\\) first", class = "pagewise_argument_error")
  expect_error(shared_name(share(1:3)), "under 4 kB", class = "pagewise_argument_error")
  expect_error(shared_name(share(letters[rep(1:26, 200)])), "character has no name", class = "pagewise_argument_error")
  expect_error(shared_name(share(data.frame(a = x))), "Name its elements", class = "pagewise_argument_error")
  expect_error(shared_name(sum), "builtin has no name", class = "pagewise_argument_error")
  expect_match(shared_name(share(matrix(x, 50))), "^pagewise:[0-9a-f]{160}$")
  said <- in_python("refused")
  expect_match(said[[1]], "no numbers of type int64.*astype\\('float64'\\)")
  expect_match(said[[2]], "no numbers of type bool")
  expect_match(said[[3]], "2 dimensions.*ravel")
  expect_match(said[4:6], "a part, or another reading")
  expect_match(said[7:8], "is not shared: call pagewise.share")
  expect_match(said[[9]], "was changed")
  expect_match(said[[10]], "list has no name")
  expect_match(said[[11]], "is not shared")
})

test_that("damaged and forged names are refused on both sides, and nothing crashes", {
  x <- share(runif(5000))
  name <- shared_name(x)
  for (bad in list("", "pagewise:", "pagewise:zz", substr(name, 1, 100), paste0(name, "00"), sub("pagewise:", "", name),
    chartr("0123456789abcdef", "123456789abcdef0", name), toupper(name))) {
    expect_error(map_shared(bad), "no name of a shared vector|damaged", class = "pagewise_share_error")
    expect_match(in_python("read", bad), "ShareError: (this is no name|the handle of a shared array is damaged)")
  }
  expect_error(map_shared(NA_character_), "must be one string", class = "pagewise_argument_error")
  expect_error(map_shared(3), "must be one string", class = "pagewise_argument_error")
  digits <- strsplit(name, "")[[1]]
  for (at in seq(10, length(digits), 3)) {
    other <- digits
    other[[at]] <- if (other[[at]] == "0") "1" else "0"
    expect_error(map_shared(paste(other, collapse = "")), "damaged", class = "pagewise_share_error")
  }
  forged <- function(field, value, of = name) in_python("forge", of, field, value)
  expect_error(map_shared(forged("user", 12345)), "another user \\(number 12345\\)", class = "pagewise_share_error")
  expect_error(map_shared(forged("boot", 1)), "another machine", class = "pagewise_share_error")
  expect_error(map_shared(forged("token", 1)), gone, class = "pagewise_share_error")
  expect_error(map_shared(forged("part", 1)), "not what its handle says", class = "pagewise_share_error")
  # Numbers of another series of R.
  expect_identical(map_shared(forged("runtime", 0x52010300)), x)
  # A runtime that nobody knows, and a layout that is not read.
  expect_error(map_shared(forged("runtime", 0x58010000)), "another version", class = "pagewise_share_error")
  expect_error(map_shared(forged("runtime", 0x50020000)), "another version", class = "pagewise_share_error")
  expect_match(in_python("read", forged("runtime", 0x52020000)), "not made by Python or R")
  expect_match(in_python("read", forged("part", 9)), "not what its handle says")
  # Of an object that is not open yet, everything must be as the name says.
  expect_match(in_python("read", forged("size", 8192)), "not what its handle says")
  expect_match(in_python("read", forged("runtime", 0x50010000)), "not what its handle says")
})

test_that("parts of other types are refused on both sides", {
  strings <- share(list(a = runif(5000), b = rep(letters, 300)))
  name <- shared_name(strings$a)
  of_strings <- in_python("forge", name, "part", 1)
  expect_error(map_shared(of_strings), "of another type", class = "pagewise_share_error")
  expect_match(in_python("read", of_strings), "of another type")
  expect_match(in_python("read-as-bytes", of_strings), "of another type")
  expect_match(in_python("read-as-bytes", name), "^\\[[ 0-9]+\\]$")
  partner <- python_holder("hold", "int64")
  expect_error(map_shared(partner$name), "of another type", class = "pagewise_share_error")
  expect_match(in_python("read", partner$name), "of another type")
})

test_that("a memory file of the right name that is truncated, unsealed or otherwise wrong is refused", {
  for (what in c("truncated", "empty", "unsealed", "part")) {
    x <- share(runif(5000))
    name <- shared_name(x)
    forger <- python_holder("segment", name, what)
    rm(x)
    invisible(gc())
    expect_error(map_shared(name), "not what its handle says|is gone", class = "pagewise_share_error", info = what)
    expect_match(in_python("read", name), "not what its handle says|is gone", info = what)
    kill_and_wait(forger$pid)
  }
})

test_that("another user is refused", {
  skip_if_not(Sys.info()[["effective_user"]] == "root", "needs root to be another user")
  x <- share(runif(5000))
  said <- in_python("as-user", 65534, "read", shared_name(x))
  skip_if(any(grepl("Permission denied|ModuleNotFound", said)), "that user may not read this Python")
  expect_match(said[length(said)], "made by another user \\(number 0\\)")
  # Neither does it help to write one's own number into the name.
  forged <- in_python("forge", shared_name(x), "user", 65534)
  expect_match(in_python("as-user", 65534, "read", forged), "ShareError: a shared array (could not be looked for|is gone)")
  expect_error(map_shared(forged), "another user \\(number 65534\\)", class = "pagewise_share_error")
})
