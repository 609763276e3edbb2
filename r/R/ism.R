#' Large pages, as in the ISM calls
#'
#' `ISM(TRUE)` puts large vectors on large pages from now on, `ISM(FALSE)` ends that; both can be
#' called at any time. The functions are those of the ISM calls for R of Nakano and Nakama (The
#' Institute of Statistical Mathematics): segments exist while their vectors live, and are released by
#' `gc()`.
#'
#' A vector of at least `minKB` and at most `maxKB` gets whole large pages, and ordinary ones for the
#' rest at its end, so that it costs no more memory than before. Where large pages come from is a wish,
#' and what cannot be had falls back to the next:
#' `"hugetlb"` (the kernel's pool, which an administrator fills: 2 MB, or 1 GB with `"hugetlb-1g"`),
#' `"transparent"` (the default), `"ordinary"` (pages of 4 kB, to compare or to lock). `ISM.status()`
#' says why it fell back. Vectors on pages of the pool are moved to ordinary ones when the process
#' forks ([parallel::mclapply()]): a child that wrote them could be killed otherwise.
#'
#' If Pagewise is off, `ISM(TRUE)` switches it on with policy `"huge"`, and `ISM(FALSE)` off again. If it is on, all
#' else stays as it is. `ISM(FALSE)` also ends what `pagewise_on(huge = "always")` began.
#'
#' @param on `TRUE`, `FALSE`, or nothing to ask.
#' @param minKB,maxKB Size of vectors in KB (1024 bytes). A vector under 2 MB holds no whole large page.
#' @param pages `"transparent"`, `"hugetlb"`, `"hugetlb-1g"` or `"ordinary"`.
#' @param lock `TRUE` keeps the vectors' pages in memory (`ulimit -l` limits how much).
#' @return `ISM()` returns whether large pages were on before, invisibly if it changed that.
#'   `ISM.status()`: a list (`support`, `status`, `minKB`, `maxKB`, `largepagesize` in KB, `pages`,
#'   `locked`, `fallback`). `ISM.list()`: a data frame with a row for each live segment (`id`,
#'   `address`, `size` in bytes, `pages`, `huge`: bytes that are in huge pages now), or `NULL`.
#'   `ISM.collapse()`: the bytes of `x` that are in huge pages then, invisibly. `ISM.trim()`: the bytes of free pages that
#'   were given back, invisibly.
#' @section Options:
#' `pagewise.minKB`, `pagewise.maxKB`, `pagewise.pages` and `pagewise.lock` are the arguments' defaults.
#' @seealso [pagewise_on()] for all that Pagewise does, [ism_assign()] for one assignment, [vector_cost()] to see
#'   which bytes are in huge pages.
#' @references
#' J. Nakano, E. Nakama. Speeding up R by using ISM-like calls. The Institute of Statistical Mathematics.
#' @examples
#' ISM(TRUE)
#' x <- matrix(runif(1e6), 1000)
#' ISM.list()
#' rm(x)
#' ISM(FALSE)
#' @name ISM
NULL

page_sources <- c("transparent", "hugetlb", "hugetlb-1g", "ordinary")

check_kb <- function(kb, name, least) {
  if (!is.numeric(kb) || length(kb) != 1 || is.na(kb) || kb < least || kb > 2^42) {
    fail("`", name, "` must be a size in KB, from ", least, " on, not ", deparse1(kb))
  }
  floor(kb)
}

ism_is_on <- function() is_on() && identical(unname(words_in_force()["huge"]), "always")

# What ISM() sets, and gives up.
ism_options <- c("huge", "huge-min", "huge-max", "pages", "lock")

#' @rdname ISM
#' @export
ISM <- function(on, minKB = getOption("pagewise.minKB", 1024), maxKB = getOption("pagewise.maxKB", 2^22),
                pages = getOption("pagewise.pages", "transparent"),
                lock = getOption("pagewise.lock", FALSE)) {
  before <- ism_is_on()
  if (missing(on)) {
    return(before)
  }
  if (check_flag(on, "on")) {
    ism_on(minKB, maxKB, pages, lock)
  } else {
    ism_off()
  }
  invisible(before)
}

ism_on <- function(min_kb, max_kb, pages, lock) {
  min_kb <- check_kb(min_kb, "minKB", 8)
  max_kb <- check_kb(max_kb, "maxKB", 8)
  if (max_kb < min_kb) {
    fail("`maxKB` (", max_kb, ") is less than `minKB` (", min_kb, ")")
  }
  if (!is.character(pages) || length(pages) != 1 || !pages %in% page_sources) {
    fail("`pages` must be one of ", paste0('"', page_sources, '"', collapse = ", "))
  }
  wish <- c(
    huge = "always", "huge-min" = sprintf("%.0fK", min_kb), "huge-max" = sprintf("%.0fK", max_kb),
    pages = pages, lock = if (check_flag(lock, "lock")) "on" else "off"
  )
  started <- !is_on()
  base <- if (!started) {
    words_to_restore("ISM(TRUE)")
  } else {
    c(policy = "huge", threshold = sprintf("%.0fK", min(128, min_kb)))
  }
  before <- if (is.null(session$ism_before)) list(started = started, words = base) else session$ism_before
  statistics <- .Call(pagewise_statistics)
  switch_on(c(base[setdiff(names(base), names(wish))], wish))
  session$ism_before <- before
  session$ism_statistics <- statistics
  if (transparent_mode() == "never" && pages == "transparent") {
    tell_once("thp", "transparent huge pages are off on this machine, so that ISM() has no large pages.",
      " As root, type:\n  echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
  }
  if (pool_is_empty(pages)) {
    tell_once(pages, empty_pool(pages))
  }
}

pool_is_empty <- function(pages) {
  pages %in% c("hugetlb", "hugetlb-1g") && hugetlb_free(if (pages == "hugetlb") 2048 else 2^20) == 0
}

# What an administrator types for pages in the pool.
fill_pool <- function(pages) {
  if (pages == "hugetlb-1g") {
    "echo N > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
  } else {
    "sysctl vm.nr_hugepages=N"
  }
}

empty_pool <- function(pages) {
  paste0("the hugetlb pool has no free page of ", if (pages == "hugetlb") "2 MB" else "1 GB",
    " now: vectors get other pages. As root, type: ", fill_pool(pages))
}

ism_off <- function() {
  if (!ism_is_on()) {
    return(invisible())
  }
  before <- session$ism_before
  if (isTRUE(before$started)) {
    pagewise_off()
  } else {
    switch_on(without_ism(if (is.null(before)) words_to_restore("ISM(FALSE)") else before$words))
  }
  session$ism_before <- NULL
}

# Large pages may have been asked for without ISM(): pagewise_on(huge = "always").
without_ism <- function(words) {
  if (identical(unname(words["huge"]), "always")) words[setdiff(names(words), ism_options)] else words
}

# A size as options have it ("2M", "64K", "65536"), in KB.
size_in_kb <- function(size) {
  kb <- c(K = 1, M = 1024, G = 1024^2)[sub("^[0-9]+", "", size)]
  as.numeric(sub("[KMG]$", "", size)) * if (is.na(kb)) 1 / 1024 else kb[[1]]
}

read_first <- function(path) {
  tryCatch(suppressWarnings(readLines(path, 1)), error = function(e) "")
}

transparent_mode <- function() {
  line <- read_first("/sys/kernel/mm/transparent_hugepage/enabled")
  mode <- regmatches(line, regexpr("(?<=\\[)\\w+(?=\\])", line, perl = TRUE))
  if (length(mode)) mode else "never"
}

hugetlb_free <- function(kb) {
  folder <- sprintf("/sys/kernel/mm/hugepages/hugepages-%.0fkB", kb)
  free <- suppressWarnings(as.numeric(read_first(file.path(folder, "free_hugepages"))))
  if (length(free) == 1 && !is.na(free)) free else 0
}

#' @rdname ISM
#' @export
ISM.status <- function() {
  words <- words_in_force()
  word <- function(name, default) if (name %in% names(words)) words[[name]] else default
  pages <- if (ism_is_on()) word("pages", "transparent") else getOption("pagewise.pages", "transparent")
  default_min <- sprintf("%.0fK", getOption("pagewise.minKB", 1024))
  default_max <- sprintf("%.0fK", getOption("pagewise.maxKB", 2^22))
  structure(
    list(
      support = transparent_mode() != "never" || hugetlb_free(2048) > 0 || hugetlb_free(2^20) > 0,
      status = ism_is_on(),
      minKB = size_in_kb(if (ism_is_on()) word("huge-min", default_min) else default_min),
      maxKB = size_in_kb(if (ism_is_on()) word("huge-max", default_max) else default_max),
      largepagesize = switch(pages, ordinary = 4, "hugetlb-1g" = 2^20, 2048),
      pages = pages,
      locked = word("lock", "off") %in% c("on", "1") && ism_is_on(),
      fallback = ism_fallbacks(pages)
    ),
    class = "ism_status"
  )
}

# Why vectors got other pages than wished for, since ISM() was last switched on.
ism_fallbacks <- function(pages) {
  now <- .Call(pagewise_statistics)
  rise <- function(name) at(now, name) - at(session$ism_statistics, name)
  c(
    if (rise("fallback_hugetlb") > 0) {
      sprintf("the hugetlb pool could not serve %.0f requests: other pages were used. As root, type: %s",
        rise("fallback_hugetlb"), fill_pool(pages))
    } else if (ism_is_on() && pool_is_empty(pages)) {
      empty_pool(pages)
    },
    if (rise("fallback_lock") > 0) {
      sprintf("%.0f vectors could not be locked: `ulimit -l` is too small", rise("fallback_lock"))
    },
    if (pages == "transparent" && transparent_mode() == "never") {
      "transparent huge pages are off: /sys/kernel/mm/transparent_hugepage/enabled says never"
    }
  )
}

#' @export
format.ism_status <- function(x, ...) {
  shown <- vapply(unclass(x), function(v) if (is.null(v)) "none" else paste(format(v), collapse = "; "), "")
  unlist(Map(function(name, value) c(paste0("$", name), paste0("[1] ", value), ""), names(shown), shown),
    use.names = FALSE)
}

#' @export
print.ism_status <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

#' @rdname ISM
#' @export
ISM.list <- function() {
  all <- as.data.frame(.Call(pagewise_blocks))
  # Advice that came to nothing, because the vector shares its pages now, makes no segment.
  held <- all$locked > 0 | ifelse(is.na(all$huge), all$unit > 0, all$huge > 0)
  all <- all[held, , drop = FALSE]
  if (nrow(all) == 0) {
    return(NULL)
  }
  kind <- ifelse(all$hugetlb > 0,
    ifelse(all$unit > 2^21, "hugetlb 1 GB", "hugetlb 2 MB"),
    ifelse(all$unit > 0 | (!is.na(all$huge) & all$huge > 0), "transparent 2 MB", "ordinary 4 kB"))
  list <- data.frame(
    id = all$id, address = all$address, size = all$size,
    pages = paste0(kind, ifelse(all$locked > 0 & all$hugetlb == 0, ", locked", "")), huge = all$huge
  )
  list <- list[order(list$address), , drop = FALSE]
  rownames(list) <- NULL
  list
}

#' @rdname ISM
#' @param x A vector, list or data frame that exists already, whoever serves it.
#' @export
ISM.collapse <- function(x) {
  invisible(.Call(pagewise_collapse, x))
}

#' @rdname ISM
#' @export
ISM.trim <- function() {
  invisible(.Call(pagewise_trim))
}

#' Assign with large pages
#'
#' `x := value` evaluates `value` with large pages on and assigns it, as in the ISM calls for R.
#' The package exports it as `ism_assign`; the operator is made on request, because packages such as
#' data.table and rlang use that name for other things:
#'
#'     `:=` <- pagewise::ism_assign
#'
#' @param x A name.
#' @param value An expression.
#' @return The value, invisibly.
#' @seealso [ISM()]
#' @examples
#' `:=` <- ism_assign
#' m := matrix(runif(1e6), 1000)
#' rm(m, `:=`)
#' @export
ism_assign <- function(x, value) {
  name <- substitute(x)
  if (!is.name(name) && !(is.character(name) && length(name) == 1)) {
    fail("the left side of := must be a name, not ", deparse1(name))
  }
  before <- ISM()
  if (!before) {
    ISM(TRUE)
    on.exit(ISM(FALSE))
  }
  assign(as.character(name), value, envir = parent.frame())
  invisible(value)
}
