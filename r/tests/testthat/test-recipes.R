# The blocks of docs/guide/r-recipes.md, each in a fresh process, with what must be true after it.
recipe <- function(heading) {
  page <- file.path(Sys.getenv("PAGEWISE_TREE"), "docs", "guide", "r-recipes.md")
  skip_if_not(nzchar(Sys.getenv("PAGEWISE_TREE")) && file.exists(page), "needs the source tree")
  lines <- readLines(page)
  starts <- grep("^## ", lines)
  at <- starts[startsWith(lines[starts], paste0("## ", heading))]
  stopifnot(length(at) == 1)
  end <- c(starts[starts > at], length(lines) + 1)[[1]]
  blocks <- grep("^    ", lines[at:(end - 1)], value = TRUE)
  stopifnot(length(blocks) > 0)
  substring(blocks, 5)
}

# Workers must find the package, and so R_LIBS says where it is.
run_recipe <- function(code, check) {
  said <- fresh_r(c("options(warn = 2)", "library(pagewise)", code, check, "cat('recipe is well\\n')"),
    environment = paste0("R_LIBS=", paste(.libPaths(), collapse = ":")))
  expect_identical(utils::tail(said, 1), "recipe is well", info = paste(said, collapse = "\n"))
}

test_that("future", {
  skip_if_not_installed("future")
  code <- recipe("future")
  plan <- grep("plan(sequential)", code, fixed = TRUE)
  run_recipe(code, "")
  value <- grep("^value", code)
  run_recipe(append(code, "stopifnot(identical(value(f), c(1e6 - 1, 0, 4096)), d$b[1] == 1, !shared_info(d)$changed)", value), "")
  # And without the option.
  code <- c(setdiff(code[seq_len(value - 2)], grep("maxSize", code, value = TRUE)), "options(future.globals.maxSize = 1e6)")
  # future 1.75 lets it pass, plain vectors as well.
  run_recipe(code, c("said <- tryCatch(value(future(d$b)), error = conditionMessage)",
    "v <- runif(1e6)", "plain <- tryCatch(value(future(v)), error = conditionMessage)", "plan(sequential)",
    "stopifnot(is.character(said) == is.character(plain))",
    "stopifnot(!is.character(said) || grepl('exceeds the maximum allowed size', said))"))
})

test_that("callr", {
  skip_if_not_installed("callr")
  run_recipe(recipe("callr"), "stopifnot(found[2] == 4096, isTRUE(all.equal(found[1], sum(x) - x[1])), processes == 2L)")
})

test_that("mirai", {
  skip_if_not_installed("mirai")
  run_recipe(recipe("mirai"), c(
    "stopifnot(found[2] == 4096, isTRUE(all.equal(found[1], sum(x) - x[1])), identical(processes, c(2L, 2L)))"
  ))
})

test_that("targets", {
  skip_if_not_installed("targets")
  folder <- tempfile("pipeline")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writeLines(gsub("4e6", "1e4", recipe("targets"), fixed = TRUE), file.path(folder, "_targets.R"))
  run_recipe(sprintf("Sys.setenv(TZ = 'UTC'); setwd('%s')", folder), c(
    "targets::tar_make(reporter = 'silent')",
    "stopifnot(abs(targets::tar_read(answer) - 0.25) < 0.05)"
  ))
})

test_that("data.table", {
  skip_if_not_installed("data.table")
  run_recipe(recipe("data.table"), c(
    "own <- function(d) { i <- shared_info(d); i$written[grepl('v$', i$vector)] }",
    "stopifnot(nrow(means) == 26, identical(own(d), 4096), own(e) <= 8192, all(d$v[1:10] == 0), !any(d$v[11:20] == 1))",
    "options(warn = 1); said <- character()",
    "withCallingHandlers(d[, w := 1], warning = function(w) { said <<- conditionMessage(w); invokeRestart('muffleWarning') })",
    "stopifnot(grepl('shallow[)]? copy of', said), nrow(shared_info(d)) == 3)",
    "u <- share(data.table(a = runif(1e5))); stopifnot(is_shared(u)); setDT(u); stopifnot(!is_shared(u))"
  ))
})

test_that("plumber: the hook gives back what a request took", {
  skip_if_not_installed("plumber")
  skip_if_not_installed("callr")
  code <- recipe("plumber")
  # The memory of a server in MB: after it has started, and after a request.
  serve <- function(code) {
    port <- callr::r(function() httpuv::randomPort()) # it leaves a thread behind, beside which nothing is shared
    server <- callr::r_bg(function(code, port) {
      eval(parse(text = code))
      plumber::pr_run(api, port = port, quiet = TRUE)
    }, list(code, port), stdout = NULL, stderr = NULL)
    on.exit(server$kill())
    own <- function() {
      lines <- readLines(sprintf("/proc/%d/smaps_rollup", server$get_pid()))
      as.numeric(gsub("[^0-9]", "", grep("^Pss:", lines, value = TRUE))) / 1000
    }
    ask <- function(path) {
      address <- sprintf("http://127.0.0.1:%d/%s", port, path)
      tryCatch(suppressWarnings(readLines(address, warn = FALSE)), error = function(e) NULL)
    }
    for (i in 1:600) {
      if (length(ask("openapi.json"))) break
      Sys.sleep(0.1)
    }
    before <- own()
    answer <- ask("mean")
    # The hook runs before the answer is sent.
    list(answer = answer, took = own() - before)
  }
  with_hook <- serve(code)
  without <- serve(grep("pr_hook", code, value = TRUE, invert = TRUE))
  expect_match(with_hook$answer, "^\\[0\\.2")
  expect_match(without$answer, "^\\[0\\.2")
  expect_gt(without$took, 60) # three columns of 32 MB
  expect_lt(with_hook$took, 30)
})
