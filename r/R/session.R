# What a session has asked for, so that ISM() can change one thing and leave the rest.
session <- new.env(parent = emptyenv())
session$options <- list()
session$ism_before <- NULL
session$told <- character()

policies <- c("auto", "share", "huge")
# What each option takes, as docs/reference/options.md has it; the core checks, this explains.
option_forms <- c(
  threshold = 'a size from 8K to 1G, such as "64K" or 65536', share = '"off", "lazy" or "always"',
  zero = '"off", "backoff" or "always"', collect = '"auto" or "burst"', pool = "TRUE or FALSE",
  slack = "percent, from 0 to 100", decay = "whole seconds, from 0 to 3600",
  brief = "whole milliseconds, from 0 to 3600000",
  relieve = '"off" or "short"', early = "TRUE or FALSE", huge = '"off", "on" or "always"',
  "huge-min" = 'a size from 8K on, such as "1M"', "huge-max" = 'a size from 8K on, such as "4G"',
  pages = '"transparent", "ordinary", "hugetlb" or "hugetlb-1g"', lock = "TRUE or FALSE",
  mmapcopy = "TRUE or FALSE", freeze = '"off", "auto" or "check"', modules = '"known" or "all"', verbose = "TRUE or FALSE",
  keeper = "TRUE or FALSE", seccomp = '"plain", "ignore" or a whole number from 0 to 1000'
)
option_names <- names(option_forms)

# A message that matters is given once a session.
tell_once <- function(what, ...) {
  if (!what %in% session$told) {
    session$told <- c(session$told, what)
    message("pagewise: ", ...)
  }
}

# An error of the class `pagewise_error`, and of a class that says more.
fail <- function(..., class = NULL) {
  stop(structure(class = c(class, "pagewise_error", "error", "condition"), list(message = paste0(...), call = NULL)))
}

warn <- function(...) {
  warning(structure(class = c("pagewise_warning", "warning", "condition"), list(message = paste0(...), call = NULL)))
}

check_flag <- function(x, name) {
  if (!is.logical(x) || length(x) != 1 || is.na(x)) {
    fail("`", name, "` must be TRUE or FALSE, not ", deparse1(x, width.cutoff = 60L), class = "pagewise_argument_error")
  }
  x
}

check_policy <- function(policy, from = "`policy`") {
  if (!is.character(policy) || length(policy) != 1 || is.na(policy)) {
    fail(from, " must be one of ", paste0('"', policies, '"', collapse = ", "), ", not ",
      deparse1(policy, width.cutoff = 60L), class = "pagewise_argument_error")
  }
  if (policy == "plain") {
    fail('policy "plain" is Pagewise switched off. Call pagewise_off() instead.')
  }
  if (policy %in% c("direct", "ksm", "ksm-aggressive")) {
    fail('policy "', policy, '" works from a program\'s start only. Type, in a shell:\n',
      "  pagewise run --policy ", policy, " -- Rscript script.R")
  }
  if (!policy %in% policies) {
    fail('there is no policy "', policy, '". Policies are ',
      paste0('"', policies, '"', collapse = ", "), ".", class = "pagewise_argument_error")
  }
  policy
}

# list(threshold = "64K", zero = FALSE) as c(threshold = "64K", zero = "off")
option_words <- function(options) {
  if (length(options) == 0) {
    return(character())
  }
  if (is.null(names(options)) || any(!nzchar(names(options)))) {
    fail("options of Pagewise need names, as in pagewise_on(threshold = \"64K\") or ",
      "options(pagewise.options = list(threshold = \"64K\"))")
  }
  names(options) <- gsub("_", "-", names(options), fixed = TRUE)
  unknown <- setdiff(names(options), option_names)
  if (length(unknown)) {
    fail("Pagewise has no option `", unknown[[1]], "`. There are: ",
      paste(option_names, collapse = ", "), class = "pagewise_argument_error")
  }
  vapply(options, option_word, "")
}

option_word <- function(value) {
  if (length(value) != 1 || is.na(value) || !(is.logical(value) || is.numeric(value) || is.character(value))) {
    fail("the value of an option of Pagewise must be one word or one number", class = "pagewise_argument_error")
  }
  word <- if (is.logical(value)) {
    if (value) "on" else "off"
  } else if (is.numeric(value)) {
    format(value, scientific = FALSE, trim = TRUE, digits = 15)
  } else {
    value
  }
  if (grepl("[,=]", word)) {
    fail('the value of an option of Pagewise may not contain "," or "=": "', word, '"')
  }
  word
}

# The options in force: the session's, or those that `pagewise run` has set.
words_in_force <- function() {
  if (length(session$options)) {
    return(session$options)
  }
  items <- strsplit(strsplit(Sys.getenv("PAGEWISE_OPTIONS"), ",", fixed = TRUE)[[1]], "=", fixed = TRUE)
  items <- items[lengths(items) == 2]
  words <- stats::setNames(vapply(items, `[[`, "", 2), vapply(items, `[[`, "", 1))
  words <- words[names(words) %in% option_names & !duplicated(names(words), fromLast = TRUE)]
  words <- if (is_preloaded()) words else character()
  c(policy = .Call(pagewise_policy), words)
}

# The same, for a function that changes them and comes back to them: some cannot be come back to.
words_to_restore <- function(caller) {
  words <- words_in_force()
  if (!words[["policy"]] %in% policies) {
    fail(caller, ' cannot be used here: this process runs with policy "', words[["policy"]],
      '", which works from a program\'s start only and could not be switched on again afterwards. ',
      "Nothing was changed. Start R with another policy:\n  pagewise run --policy auto -- Rscript script.R")
  }
  words
}

# `reason` is the core's, and names an item that it did not understand as name=value.
what_to_do <- function(reason) {
  name <- sub("=.*", "", sub("^.*: ", "", reason))
  if (grepl("not understood", reason, fixed = TRUE) && name %in% option_names) {
    return(paste0("`", name, "` is ", option_forms[[name]], "."))
  }
  "`pagewise doctor`, in a shell, says what this machine allows."
}

switch_on <- function(words) {
  text <- paste(names(words), words, sep = "=", collapse = ",")
  reason <- .Call(pagewise_switch_on, text)
  if (!is.null(reason)) {
    fail("Pagewise cannot be switched on: ", reason, "\nNothing was changed. ", what_to_do(reason),
      class = if (grepl("not understood", reason, fixed = TRUE)) "pagewise_argument_error" else "pagewise_unavailable")
  }
  session$options <- words
}

#' Switch Pagewise on and off
#'
#' `pagewise_on()` has Pagewise serve the large vectors that are made from now on, in R and in the
#' libraries of packages, those loaded later among them. `pagewise_off()` leaves new vectors to the C
#' library again; vectors that exist stay valid, and are released as before. Both can be called at
#' any time and as often as you like. `with_pagewise()` switches on for one expression.
#'
#' Nothing else in the process changes: other libraries keep their own memory functions. Under
#' `pagewise run` (the command) Pagewise is on already, for the whole process; the functions then
#' change its policy, or make it pause. `with_pagewise()` and `ISM()` come back to the policy that was;
#' where that works from a program's start only (`pagewise run --policy general`) they refuse.
#'
#' @param policy `"auto"` (share pages of copies where it pays, give back zero pages, large and warm
#'   pages), `"share"` (the papers' rules: every copy shares its pages) or `"huge"` (large and warm
#'   pages alone).
#' @param ... Options by name, as in `PAGEWISE_OPTIONS`: `threshold = "64K"` (vectors from this size
#'   on), `decay = 30` (seconds for which free pages are kept), `zero = "off"` and so on; `TRUE` and
#'   `FALSE` mean `"on"` and `"off"`. Those of `options(pagewise.options = list())` come first.
#' @param expr An expression, evaluated where it stands.
#' @return `pagewise_on()` and `pagewise_off()` return, invisibly, whether Pagewise was on before;
#'   `with_pagewise()` the value of `expr`; `pagewise_status()` a list, with a print method.
#' @section Options:
#' * `pagewise.policy`: the default for `policy`.
#' * `pagewise.options`: a list of options that `pagewise_on()` starts from.
#' * `pagewise.autoload`: `TRUE` switches on when the package is loaded.
#' @section Conditions:
#' Errors of these functions have the class `pagewise_error`, and `pagewise_argument_error` where an argument is wrong or
#' `pagewise_unavailable` where the machine does not allow what was asked for; warnings have `pagewise_warning`.
#' @seealso [vector_cost()] and [memory_report()] to see what it saves, [ISM()] for large pages alone, [share()] for
#'   several processes.
#' @references
#' H. Kotthaus, I. Korb, M. Engel, P. Marwedel (2014). Dynamic page sharing optimization for the R language.
#' Proceedings of the 10th ACM Symposium on Dynamic Languages (DLS '14). \doi{10.1145/2661088.2661094}
#' @examples
#' pagewise_on()
#' x <- numeric(1e6)
#' y <- x
#' y[1] <- 1 # one page is copied, not the vector
#' vector_cost(y)
#' pagewise_status()
#' pagewise_off()
#' @export
pagewise_on <- function(policy = getOption("pagewise.policy", "auto"), ...) {
  before <- is_on()
  given <- option_words(list(...))
  defaults <- option_words(as.list(getOption("pagewise.options", list())))
  from <- if (missing(policy) && !is.null(getOption("pagewise.policy"))) {
    "the option `pagewise.policy`"
  } else {
    "`policy`"
  }
  words <- c(policy = check_policy(policy, from), defaults[setdiff(names(defaults), names(given))], given)
  switch_on(words)
  session$ism_before <- NULL
  invisible(before)
}

#' @rdname pagewise_on
#' @export
pagewise_off <- function() {
  before <- is_on()
  .Call(pagewise_switch_off)
  session$ism_before <- NULL
  invisible(before)
}

#' @rdname pagewise_on
#' @export
with_pagewise <- function(expr, policy = getOption("pagewise.policy", "auto"), ...) {
  was_on <- is_on()
  words <- if (was_on) words_to_restore("with_pagewise()")
  ism_before <- session$ism_before
  pagewise_on(policy, ...)
  on.exit(if (was_on) {
    switch_on(words)
    session$ism_before <- ism_before
  } else {
    pagewise_off()
  })
  force(expr)
}

is_on <- function() .Call(pagewise_state)[[1]]
is_preloaded <- function() .Call(pagewise_state)[[2]]

#' @rdname pagewise_on
#' @export
pagewise_status <- function() {
  structure(
    list(
      on = is_on(),
      preloaded = is_preloaded(),
      policy = .Call(pagewise_policy),
      options = session$options[setdiff(names(session$options), "policy")],
      version = .Call(pagewise_version),
      statistics = .Call(pagewise_statistics)
    ),
    class = "pagewise_status"
  )
}

#' @export
format.pagewise_status <- function(x, ...) {
  where <- if (x$preloaded) "the whole process (pagewise run)" else "R and its packages"
  state <- if (x$on) {
    sprintf("on, policy %s, for %s", x$policy, where)
  } else {
    "off"
  }
  lines <- paste0("Pagewise ", x$version, ": ", state)
  if (x$on && length(x$options)) {
    lines <- c(lines, paste0("  options   ", paste(names(x$options), x$options, sep = "=", collapse = ", ")))
  }
  s <- x$statistics
  if (!is.null(s)) {
    lines <- c(
      lines,
      sprintf("  vectors   %.0f served, %s live", s[["blocks_allocated"]], bytes(s[["live_bytes"]])),
      sprintf("  copies    %.0f seen, %.0f shared: %s not copied", s[["copies_seen"]],
        s[["copies_shared"]], bytes(s[["shared_copy_bytes"]])),
      sprintf("  zeros     %s given back", bytes(s[["zero_reclaimed_bytes"]])),
      sprintf("  free      %s kept warm", bytes(s[["cached_bytes"]]))
    )
    failures <- s[startsWith(names(s), "fallback_") & s > 0]
    if (length(failures)) {
      lines <- c(lines, paste0("  fallbacks ", paste(sub("fallback_", "", names(failures)),
        failures, sep = " ", collapse = ", ")))
    }
  }
  lines
}

#' @export
print.pagewise_status <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

# 1234567 as "1.2 MB", in powers of 1000 as the command does.
bytes <- function(n) {
  one <- function(n) {
    if (is.na(n)) {
      return("?")
    }
    if (abs(n) < 1000) {
      return(sprintf("%.0f B", n))
    }
    power <- min(floor(log10(abs(n)) / 3), 5)
    scaled <- n / 1000^power
    digits <- max(0, 2 - floor(log10(abs(scaled))))
    sprintf("%.*f %sB", digits, scaled, c("k", "M", "G", "T", "P")[[power]])
  }
  vapply(n, one, "")
}
