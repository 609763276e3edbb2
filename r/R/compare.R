#' Compare an expression with and without Pagewise
#'
#' Evaluates an expression in fresh R processes, plain and under Pagewise in turns, and compares peak and average
#' physical memory, CPU time and wall time. This session is not changed, whether Pagewise is on in it or not. The runs
#' are those of the command `pagewise compare`, which must be installed.
#'
#' Each run is an R process of its own (`Rscript --vanilla`) in which these packages are attached that are attached
#' here, in the same order. The values that the expression uses are written to a temporary file, and read there; names
#' in strings (`get("x")`) are not seen. A function of the session takes along what it uses. Values of [share()] arrive
#' as ordinary ones. Options (`options()`) and what was changed inside packages are not carried over. All runs begin
#' with the same random numbers.
#'
#' The expression is evaluated `2 * runs` times: what it writes, sends or deletes, it does each time. R itself and the
#' values that were carried over are part of each figure.
#'
#' @param expr An expression. It is not evaluated here.
#' @param runs How often it is evaluated plain, and how often under Pagewise.
#' @param policy,... A policy and options of Pagewise, as [pagewise_on()] has them. `"general"` is a policy here as
#'   well.
#' @param seed All runs begin with `set.seed(seed)`. `NULL`: with random numbers of their own.
#' @param check `TRUE`: values are compared as well, by a digest (md5) that each run writes at its end. What the
#'   expression prints is compared always. The digest takes time where a value is large: it counts in both.
#' @param quiet `TRUE` leaves out the progress.
#' @return A list of class `pagewise_comparison`: `label`, `policy`, `runs` and `rounds` (asked for, and complete),
#'   `interrupted`, `same` (values and output were the same in all runs), `preloaded` (Pagewise was at work), `figures`
#'   (a data frame: `figure`, `plain` and `pagewise`, means of the runs in bytes or seconds, their `ratio`, and its 95 %
#'   interval `low` and `high`, which is `NA` where there are fewer than five pairs), `measurements` (a data frame with
#'   a row for each run) and `statistics` (of Pagewise, mean of the runs). `summary()` gives `figures`,
#'   `as.data.frame()` `measurements`, and `plot()` draws them.
#' @section Conditions: An error of the expression is an error of class `pagewise_expression_error`, with its message.
#'   Without the command or a package that is needed it is `pagewise_unavailable`. A value that cannot be carried over
#'   (a connection, or a pointer into this process) is `pagewise_argument_error`, and so is a wrong argument.
#'   A comparison that was interrupted before each way had one run is `pagewise_interrupted`.
#' @section The command: It is looked for on the `PATH`, and in `~/.local/bin`. `options(pagewise.command =
#'   "/path/to/pagewise")` names another.
#' @seealso [memory_profile()] for an expression in this session, [pagewise_on()].
#' @examples
#' \dontrun{
#' x <- runif(5e6)
#' p <- pagewise_compare({
#'   versions <- lapply(1:10, function(i) {
#'     x[i] <- 0
#'     x
#'   })
#'   length(versions)
#' }, runs = 2)
#' p
#' plot(p)
#' }
#' @export
pagewise_compare <- function(expr, runs = 5, policy = getOption("pagewise.policy", "auto"), ..., seed = 1, check = TRUE,
                             quiet = !interactive()) {
  compare_expression(substitute(expr), parent.frame(), runs, policy, option_words(list(...)), seed, check, quiet)
}

compare_expression <- function(expression, frame, runs = 5, policy = "auto", words = character(), seed = 1, check = TRUE,
                               quiet = FALSE) {
  if (!is.numeric(runs) || length(runs) != 1 || is.na(runs) || runs < 1 || runs > 1000 || runs != floor(runs)) {
    fail("`runs` must be a whole number from 1 to 1000, not ", deparse1(runs, width.cutoff = 60L),
      class = "pagewise_argument_error")
  }
  if (!identical(policy, "general")) {
    check_policy(policy)
  }
  if (!is.null(seed) && (!is.numeric(seed) || length(seed) != 1 || is.na(seed))) {
    fail("`seed` must be a number, or NULL, not ", deparse1(seed, width.cutoff = 60L), class = "pagewise_argument_error")
  }
  force(words)
  check_flag(check, "check")
  check_flag(quiet, "quiet")
  command <- find_command()
  need_packages("jsonlite", "pagewise_compare()")
  values <- values_used(expression, frame)
  check_values(values)
  folder <- tempfile("pagewise-compare-")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE))
  write_task(folder, expression, values, identical(frame, globalenv()), seed, check)
  report <- run_compare(command, folder, runs, policy, words, quiet)
  new_comparison(report, deparse1(expression, collapse = " "), policy)
}

# --- what is needed --------------------------------------------------------------

find_command <- function() {
  asked <- getOption("pagewise.command")
  if (!is.null(asked)) {
    if (is.character(asked) && length(asked) == 1 && file.access(asked, 1) == 0 && !dir.exists(asked)) {
      return(normalizePath(asked))
    }
    fail("the option `pagewise.command` names no program that can be run: ", deparse1(asked, width.cutoff = 60L),
      class = "pagewise_unavailable")
  }
  found <- c(Sys.which("pagewise"), path.expand("~/.local/bin/pagewise"))
  found <- found[nzchar(found) & file.access(found, 1) == 0]
  if (length(found) == 0) {
    fail("the command `pagewise` was not found on the PATH, nor in ~/.local/bin. It is no part of this package: in a ",
      "clone of Pagewise, type `make install PREFIX=$HOME/.local`. If it is elsewhere: ",
      "options(pagewise.command = \"/path/to/pagewise\")",
      class = "pagewise_unavailable")
  }
  found[[1]]
}

need_packages <- function(names, what) {
  missing <- names[!vapply(names, requireNamespace, NA, quietly = TRUE)]
  if (length(missing)) {
    fail(what, " needs the package", if (length(missing) > 1) "s", " ", paste(missing, collapse = " and "),
      ". Type: install.packages(", deparse1(missing), ")", class = "pagewise_unavailable")
  }
}

# --- what is carried over ----------------------------------------------------------

# How code first uses a variable of its surroundings, in the order in which R evaluates: "read", "written", or NULL.
# What may be left out (a branch, the body of a loop) counts where it reads, and not where it writes.
first_use <- function(e, name) {
  if (is.symbol(e)) {
    return(if (identical(as.character(e), name)) "read")
  }
  if (!is.call(e)) {
    return(NULL)
  }
  maybe <- function(part) {
    if (identical(first_use(part, name), "read")) "read"
  }
  of_name <- function(target) if (identical(as.character(target), name)) "written"
  head <- if (is.symbol(e[[1]])) as.character(e[[1]]) else ""
  is_assignment <- head %in% c("<-", "=", "<<-") && length(e) == 3
  if (head %in% c("~", "quote")) {
    NULL
  } else if (head == "function") {
    parts <- c(Filter(is_given, as.list(e[[2]])), list(e[[3]]))
    if (!name %in% names(e[[2]])) first_of(parts, maybe)
  } else if (head %in% c("$", "@", "::", ":::")) {
    first_use(e[[2]], name)
  } else if (is_assignment && (is.symbol(e[[2]]) || is.character(e[[2]]))) {
    first_of(list(quote(value), quote(target)), function(part) {
      if (identical(part, quote(value))) first_use(e[[3]], name) else of_name(e[[2]])
    })
  } else if (is_assignment) {
    first_of(list(e[[3]], e[[2]]), first_use, name) # x[i] <- value reads x
  } else if (head == "if") {
    branches <- lapply(as.list(e)[-(1:2)], first_use, name)
    is_certain <- length(branches) == 2 && all(lengths(branches) > 0)
    first_of(list(quote(condition), quote(branches)), function(part) {
      if (identical(part, quote(condition))) {
        first_use(e[[2]], name)
      } else if ("read" %in% unlist(branches)) "read" else if (is_certain) "written"
    })
  } else if (head == "for") {
    found <- first_of(list(e[[3]]), first_use, name)
    if (is.null(found)) found <- of_name(e[[2]])
    if (is.null(found)) maybe(e[[4]]) else found
  } else if (head %in% c("while", "repeat")) {
    first_of(as.list(e)[-1], maybe)
  } else {
    first_of(Filter(is_given, as.list(e)), first_use, name)
  }
}

# Not an empty argument, as in x[, 1] or function(x).
is_given <- function(e) !(is.symbol(e) && !nzchar(as.character(e)))

first_of <- function(parts, use, ...) {
  for (part in parts) {
    found <- use(part, ...)
    if (!is.null(found)) return(found)
  }
  NULL
}

# Variables of the session that code takes, of `frame` and its surroundings: a list of the data they are in, by name.
takes <- function(code, frame) {
  names <- setdiff(all.names(code, unique = TRUE), "...")
  replacing <- paste0(names, "<-") # of f(x) <- value
  holders <- sapply(c(names, replacing), holder_of, frame, simplify = FALSE)
  holders <- holders[lengths(holders) > 0 | !vapply(holders, is.null, NA)]
  holders[vapply(names(holders), function(name) {
    name %in% replacing || identical(first_use(code, name), "read")
  }, NA)]
}

# Where a name is found from `frame` on, in the session's own data. NULL: in packages, which are attached there as well,
# or nowhere.
holder_of <- function(name, frame) {
  while (!identical(frame, globalenv()) && !identical(frame, emptyenv())) {
    if (exists(name, frame, inherits = FALSE)) {
      return(if (!isNamespace(frame) && !identical(parent.env(frame), .BaseNamespaceEnv)) frame)
    }
    frame <- parent.env(frame)
  }
  Find(function(data) exists(name, data, inherits = FALSE), data_frames_of_search_path())
}

is_of_session <- function(holder) {
  any(vapply(data_frames_of_search_path(), identical, NA, holder))
}

# Values by name: a list `session` of those of the global environment, and `own` of those of the function that compares.
# Functions of either take along what they use in turn; others have their surroundings with them.
values_used <- function(expression, frame) {
  values <- list(session = list(), own = list())
  wanted <- takes(expression, frame)
  while (length(wanted)) {
    name <- names(wanted)[[1]]
    place <- if (is_of_session(wanted[[1]])) "session" else "own"
    value <- get(name, wanted[[1]], inherits = FALSE)
    wanted <- wanted[-1]
    if (name %in% names(values[[place]])) {
      next
    }
    if (is.function(value) && !is.primitive(value)) {
      surroundings <- environment(value)
      more <- takes(call("function", formals(value), body(value)), surroundings)
      if (identical(surroundings, frame) && place == "own") {
        environment(value) <- globalenv() # task.R has another one for it
        attr(value, "pagewise_own") <- TRUE
      } else {
        more <- more[vapply(more, is_of_session, NA)]
      }
      wanted <- c(wanted, more)
    }
    values[[place]][name] <- list(value)
  }
  values
}

# What in a value means nothing in another process, and where it is; NULL: nothing. `seen`: environments.
find_local <- function(x, path, seen = new.env(parent = emptyenv())) {
  if (inherits(x, "connection")) {
    return(c(path, "a connection"))
  }
  kind <- switch(typeof(x),
    externalptr = , weakref = "a pointer into this process")
  if (!is.null(kind)) {
    return(c(path, kind))
  }
  found <- NULL
  if (is.list(x)) {
    elements <- unclass(x)
    steps <- if (is.null(names(elements))) character(length(elements)) else names(elements)
    steps <- ifelse(is.na(steps) | !nzchar(steps), sprintf("[[%d]]", seq_along(elements)), paste0("$", steps))
    for (i in which(!vapply(elements, is_plain, NA))) {
      found <- find_local(elements[[i]], paste0(path, steps[[i]]), seen)
      if (!is.null(found)) return(found)
    }
  } else if (is.function(x) && !is.primitive(x)) {
    found <- find_local(environment(x), sprintf("environment(%s)", path), seen)
  } else if (is.environment(x) && is_carried(x) && !any(vapply(seen$all, identical, NA, x))) {
    seen$all <- c(seen$all, x)
    # Promises and active bindings are left as they are.
    for (name in setdiff(ls(x, all.names = TRUE, sorted = FALSE), "...")) {
      value <- tryCatch(if (!bindingIsActive(name, x)) get(name, x, inherits = FALSE), error = function(e) NULL)
      found <- find_local(value, paste0(path, "$", name), seen)
      if (!is.null(found)) return(found)
    }
    found <- find_local(parent.env(x), sprintf("parent.env(%s)", path), seen)
  }
  if (is.null(found)) find_local_attribute(x, path, seen) else found
}

# data.table makes its pointer anew; the environment of a formula is seldom looked into.
find_local_attribute <- function(x, path, seen) {
  all <- attributes(x)
  for (name in setdiff(names(all), c(".internal.selfref", "srcref", ".Environment", "names", "class", "levels"))) {
    found <- find_local(all[[name]], sprintf("attr(%s, \"%s\")", path, name), seen)
    if (!is.null(found)) return(found)
  }
  NULL
}

is_plain <- function(x) (is.atomic(x) || is.null(x)) && is.null(attributes(x))

# R writes of these no more than their name.
is_carried <- function(environment) {
  !identical(environment, globalenv()) && !identical(environment, baseenv()) && !identical(environment, emptyenv()) &&
    !isNamespace(environment) && !grepl("^(package:|Autoloads$)", c(attr(environment, "name"), "")[[1]])
}

check_values <- function(values) {
  values <- c(values$session, values$own)
  for (name in names(values)) {
    found <- find_local(values[[name]], name)
    if (!is.null(found)) {
      fail("`", found[[1]], "` is ", found[[2]], ", which means nothing in another process. Make it inside the expression",
        class = "pagewise_argument_error")
    }
  }
}

# --- the runs ---------------------------------------------------------------------

# Writes what inst/compare/task.R reads. Data lie in a file each, so that no list refers to them as well: the first write
# would copy them then. Functions and environments stay together, since they may have environments in common.
write_task <- function(folder, expression, values, at_top, seed, check) {
  old <- options(pagewise.handles = FALSE)
  on.exit(options(old))
  is_data <- function(value) is.atomic(value) || is.null(value) || is.data.frame(value)
  for (place in names(values)) {
    for (name in names(Filter(is_data, values[[place]]))) {
      number <- match(name, names(values[[place]]))
      saveRDS(values[[place]][[name]], file.path(folder, sprintf("%s-%d.rds", place, number)), compress = FALSE)
      values[[place]][[name]] <- structure(list(number), class = "pagewise_file")
    }
  }
  task <- list(
    expression = expression, values = values, at_top = at_top,
    libraries = .libPaths(), packages = rev(sub("^package:", "", grep("^package:", search(), value = TRUE))),
    seed = seed, kind = RNGkind(), check = check
  )
  saveRDS(task, file.path(folder, "task.rds"), compress = FALSE)
}

run_compare <- function(command, folder, runs, policy, words, quiet) {
  json <- file.path(folder, "report.json")
  errors <- file.path(folder, "errors")
  words <- c(
    "compare", "--runs", runs, "--with", paste0("plain,", policy), "--json", json, if (quiet) "--quiet",
    if (length(words)) c("--options", paste(names(words), words, sep = "=", collapse = ",")), "--",
    file.path(R.home("bin"), "Rscript"), "--vanilla", system.file("compare", "task.R", package = "pagewise"), folder
  )
  status <- suppressWarnings(system2(command, shQuote(words), stdout = FALSE, stderr = if (quiet) errors else "",
    stdin = "/dev/null"))
  fail_as_expression(folder)
  if (!file.exists(json)) {
    said <- if (file.exists(errors)) readLines(errors, warn = FALSE)
    if (status > 128 || status == 2) {
      fail("the comparison was interrupted before each way had one run", class = "pagewise_interrupted")
    }
    fail("`pagewise compare` ended with exit status ", status,
      if (length(said)) paste0(":\n", paste(said, collapse = "\n")), class = "pagewise_unavailable")
  }
  report <- jsonlite::fromJSON(json, simplifyVector = FALSE)
  for (one in report$configurations) {
    fail_as_run(one, if (file.exists(errors)) readLines(errors, warn = FALSE))
  }
  report
}

# task.R leaves the message of an error, in a file for each way of running.
fail_as_expression <- function(folder) {
  files <- file.path(folder, c("error-plain.rds", "error-pagewise.rds"))
  failed <- file.exists(files)
  if (!any(failed)) {
    return(invisible())
  }
  error <- readRDS(files[failed][[1]])
  way <- if (all(failed)) "" else if (failed[[1]]) " without Pagewise alone" else " under Pagewise alone"
  fail("the expression failed", way, if (nzchar(error$call)) paste0(", in ", error$call), ": ", error$message,
    class = "pagewise_expression_error")
}

fail_as_run <- function(one, said) {
  if (one$exit_status == 0 && is.null(one$signal) && !one$timed_out) {
    return(invisible())
  }
  how <- if (is.null(one$signal)) paste("with exit status", one$exit_status) else paste("by signal", one$signal)
  memory <- if (one$killed_for_memory > 0) " (the kernel killed it because memory ran out)"
  fail("R ended ", how, memory, ", ", if (one$name == "plain") "without" else "under",
    " Pagewise, in the midst of the expression",
    if (length(said)) paste0(":\n", paste(said, collapse = "\n")), class = "pagewise_expression_error")
}

# --- the result -------------------------------------------------------------------

compared_figures <- c(peak = "peak_bytes", average = "average_bytes", cpu = "cpu_seconds", wall = "wall_seconds")
names_of_figures <- c(peak = "peak memory", average = "average memory", cpu = "CPU time", wall = "wall time")
fewest_pairs <- 5 # of which an interval says something

new_comparison <- function(report, label, policy) {
  configurations <- report$configurations
  mean_of <- function(configuration, figure) configuration[[compared_figures[[figure]]]]$mean
  ratio <- if (length(report$ratios)) report$ratios[[1]] else list()
  of_ratio <- function(figure, field) {
    known <- !is.null(ratio[[figure]]) && (field == "mean" || report$rounds >= fewest_pairs)
    if (known) ratio[[figure]][[field]] else NA_real_
  }
  figures <- names(compared_figures)
  column <- function(get) vapply(figures, get, 0, USE.NAMES = FALSE)
  measured <- lapply(configurations, function(one) {
    field <- function(name) vapply(one$measurements, `[[`, 0, name)
    # A run that was too short to be looked at has no memory, not none.
    looked <- field("samples") > 0 | one$sampler == "cgroup"
    data.frame(
      configuration = one$name, run = seq_along(one$measurements), peak = ifelse(looked, field("peak_bytes"), NA),
      average = ifelse(looked, field("average_bytes"), NA), cpu = field("cpu_seconds"), wall = field("wall_seconds")
    )
  })
  structure(
    list(
      label = label, policy = policy, runs = report$runs, rounds = report$rounds, interrupted = report$interrupted,
      same = all(vapply(configurations, `[[`, NA, "output_matches")), preloaded = configurations[[2]]$preloaded,
      figures = data.frame(
        figure = figures, plain = column(function(f) mean_of(configurations[[1]], f)),
        pagewise = column(function(f) mean_of(configurations[[2]], f)), ratio = column(function(f) of_ratio(f, "mean")),
        low = column(function(f) of_ratio(f, "low")), high = column(function(f) of_ratio(f, "high"))
      ),
      measurements = do.call(rbind, measured), statistics = unlist(configurations[[2]]$statistics)
    ),
    class = "pagewise_comparison"
  )
}

# The figures as text: bytes and seconds.
cells_of_figures <- function(figures) {
  is_size <- figures$figure %in% c("peak", "average")
  value <- function(x) ifelse(is_size, bytes(x), sprintf("%.2f s", x))
  number <- function(x) ifelse(is.na(x), "", sprintf("%.2f", x))
  data.frame(
    figure = names_of_figures[figures$figure], plain = value(figures$plain), pagewise = value(figures$pagewise),
    ratio = ifelse(is.na(figures$ratio), "?", number(figures$ratio)),
    interval = ifelse(is.na(figures$low), "", paste(number(figures$low), "to", number(figures$high))), row.names = NULL
  )
}

#' @export
format.pagewise_comparison <- function(x, ...) {
  label <- if (nchar(x$label) > 60) paste0(substr(x$label, 1, 57), "...") else x$label
  shown <- cells_of_figures(x$figures)
  cells <- rbind(c("", "plain", x$policy, "ratio", if (any(nzchar(shown$interval))) "95 %" else ""), as.matrix(shown))
  cells <- apply(cells, 2, function(column) format(column, justify = "right"))
  cells[, 1] <- format(c("", shown$figure))
  c(
    sprintf("<pagewise_comparison> %s", label),
    sub(" +$", "", paste0("  ", apply(cells, 1, paste, collapse = "  "))),
    paste0("  ", remarks_on(x))
  )
}

remarks_on <- function(x) {
  c(
    sprintf("%d run%s plain and under Pagewise each, in turns%s", x$rounds, if (x$rounds == 1) "" else "s",
      if (x$interrupted) sprintf(" (of %d: it was interrupted)", x$runs) else ""),
    if (x$rounds < fewest_pairs) {
      sprintf("fewer than %d pairs say little of how far runs differ: pagewise_compare(runs = %d) or more", fewest_pairs,
        fewest_pairs)
    },
    if (!x$same) {
      paste("OUTPUT DIFFERS: not all runs printed the same, or had the same value. Time, file names and random numbers",
        "do that as well")
    },
    if (!x$preloaded) "Pagewise was not at work: what it would save is not known. Type `pagewise doctor`, in a shell"
  )
}

#' @export
print.pagewise_comparison <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

#' @export
summary.pagewise_comparison <- function(object, ...) object$figures
