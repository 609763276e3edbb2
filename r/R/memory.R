#' What a vector really costs
#'
#' How many bytes of physical memory stand behind an object: pages of its own, pages that it shares
#' (and with which variables), pages that were never written or were given back, and huge pages. The
#' object is not changed, copied or read.
#'
#' The vectors of lists, data frames and slots of S4 objects are added up, each counted once. Strings
#' are not: R keeps them in one pool for all character vectors. Nor are other attributes: names, row
#' names, levels. A compact vector such as `1:1e9` costs nothing until R expands it. Vectors under a
#' page (4 kB) lie beside others and count with their size, as often as they are listed. Of vectors that
#' [share()] made, `own` is what this process wrote, and R's pointers to strings that were read; all the rest
#' is `shared`, as [shared_info()] has it.
#'
#' @param x A vector, list, data frame or S4 object.
#' @return A list of class `vector_cost`, in bytes: `bytes` (what the vectors hold), `own`, `shared`,
#'   `published` (of `shared`: pages of objects that [share()] made, which other processes may have as well,
#'   whether this one touched them or not), `swapped`, `absent`, `huge` (of `own` and `shared`, in huge pages; `NA` where the kernel does not
#'   tell), `managed` (served by Pagewise), `shared_with` (names of variables), `known` (`FALSE`
#'   where a container hides the page table).
#' @seealso [memory_report()] for the whole session, [shared_info()] for objects of [share()].
#' @examples
#' x <- runif(1e6)
#' vector_cost(x)
#' @export
vector_cost <- function(x) {
  name <- deparse1(substitute(x))
  # NULL is no longer atomic since R 4.4.
  if (!is.null(x) && !is.atomic(x) && !is.list(x) && !isS4(x)) {
    fail("`x` must be a vector, matrix, factor, data frame or a list of these: what functions, ",
      "environments and calls refer to is not counted", class = "pagewise_argument_error")
  }
  found <- .Call(pagewise_cost, x)
  cost <- as.list(found[[1]])
  cost$known <- cost$known == 1
  if (!cost$known) {
    cost[c("own", "shared", "published", "swapped", "absent", "huge")] <- NA_real_
  } else if (!cost$huge_known) {
    cost$huge <- NA_real_
  }
  cost$huge_known <- NULL
  cost$name <- name
  cost$shared_with <- setdiff(variables_on(found[[2]]), name)
  structure(cost, class = "vector_cost")
}

# Variables of the search path that are on one of these snapshots.
variables_on <- function(snapshots) {
  if (length(snapshots) == 0) {
    return(character())
  }
  unlist(lapply(data_frames_of_search_path(), function(frame) {
    found <- .Call(pagewise_frame, frame)
    found[[1]][vapply(found[[3]], function(s) any(s %in% snapshots), NA)]
  }))
}

# The global environment and what the user attached; packages hold no data of the session's.
data_frames_of_search_path <- function() {
  names <- grep("^(package:|Autoloads$|tools:)", search(), invert = TRUE, value = TRUE)
  lapply(names, as.environment)
}

#' @export
format.vector_cost <- function(x, ...) {
  lines <- sprintf("<vector_cost> %s: %s in %.0f vector%s", x$name, bytes(x$bytes), x$vectors,
    if (x$vectors == 1) "" else "s")
  if (!x$known) {
    return(c(lines, "  this kernel or container does not show the process its page table"))
  }
  row <- function(label, value, note = "") {
    if (is.na(value) || value > 0) sprintf("  %-10s %8s%s", label, bytes(value), note)
  }
  partners <- if (length(x$shared_with)) {
    paste0("  with ", paste(utils::head(x$shared_with, 5), collapse = ", "),
      if (length(x$shared_with) > 5) sprintf(" and %d more", length(x$shared_with) - 5L))
  } else {
    ""
  }
  c(
    lines,
    sprintf("  %-10s %8s", "own", bytes(x$own)),
    row("shared", x$shared, partners),
    if (x$published > 0) {
      row("of share()", x$published, "  (shared_info() names the processes that have it)")
    },
    row("absent", x$absent, "  (never written, or given back)"),
    row("swapped", x$swapped),
    row("compact", x$compact, "  (not expanded by R)"),
    if (!is.na(x$huge)) row("huge", x$huge, "  (in huge pages)"),
    if (x$managed > 0 && x$managed < x$bytes) row("managed", x$managed, "  (served by Pagewise)")
  )
}

#' @export
print.vector_cost <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

# /proc files as named numbers, in bytes; empty when they cannot be read.
proc_bytes <- function(path) {
  lines <- tryCatch(suppressWarnings(readLines(path)), error = function(e) character())
  match <- regmatches(lines, regexec("^(\\w+):\\s+(\\d+) kB", lines))
  match <- match[lengths(match) == 3]
  stats::setNames(as.numeric(vapply(match, `[[`, "", 3)) * 1024, vapply(match, `[[`, "", 2))
}

at <- function(values, name) if (name %in% names(values)) values[[name]] else 0

# Physical memory of this process. Pss gives each page to its users in equal parts, and leaves out
# pages of the hugetlb pool and snapshot pages that no vector shows.
physical_memory <- function(statistics) {
  rollup <- proc_bytes("/proc/self/smaps_rollup")
  status <- proc_bytes("/proc/self/status")
  hugetlb <- at(status, "HugetlbPages")
  if ("Pss" %in% names(rollup)) {
    unmapped <- max(0, at(statistics, "snapshot_bytes") - at(rollup, "Pss_Shmem"))
    physical <- rollup[["Pss"]] + hugetlb + unmapped
    source <- "pss"
  } else {
    physical <- at(status, "RssAnon") + at(status, "RssFile") + hugetlb +
      max(at(statistics, "snapshot_bytes"), if (at(statistics, "snapshot_bytes") > 0) 0 else at(status, "RssShmem"))
    source <- "rss"
  }
  list(
    physical = physical, source = source, swapped = at(status, "VmSwap"),
    page_tables = at(status, "VmPTE"),
    huge = at(rollup, "AnonHugePages") + at(rollup, "ShmemPmdMapped") + hugetlb
  )
}

#' Where the memory of this session is
#'
#' Physical memory of this R process, what Pagewise shares, has given back and keeps, and the largest
#' variables of the global environment and of attached data (vectors, lists and S4 objects), each with
#' what it really costs ([vector_cost()]). Promises and active bindings are left alone.
#'
#' Nothing here needs privileges. Physical memory is the proportional set size, to which pages of the
#' hugetlb pool and snapshot pages that no vector shows are added; where `/proc/self/smaps_rollup` may
#' not be read, it is made of the resident set size, and the report says so.
#'
#' Behind [pagewise_freeze()], or with `freeze=auto`, R's own `gc()` shows fewer cells than there are: it does not count
#' frozen ones. Physical memory here has them.
#'
#' @param n How many variables to list.
#' @return A list of class `memory_report`: `physical`, `shared` (bytes that vectors did not have to
#'   copy: what they show less what snapshots hold), `zero` (given back so far), `cached` (free and kept warm), `huge`, `swapped`,
#'   `page_tables`, `live` (vectors that Pagewise serves), `objects` (objects of [share()] that this process has;
#'   what it did not touch of them is not in `physical`), all in bytes; `source` (`"pss"` or
#'   `"rss"`), and `vectors`, a data frame.
#' @seealso [vector_cost()] for one object, [memory_profile()] for an expression over time.
#' @examples
#' memory_report(n = 3)
#' @export
memory_report <- function(n = 10) {
  if (!is.numeric(n) || length(n) != 1 || is.na(n) || n < 0) {
    fail("`n` must be a number of variables, not ", deparse1(n), class = "pagewise_argument_error")
  }
  statistics <- .Call(pagewise_statistics)
  report <- physical_memory(statistics)
  shared <- at(statistics, "shared_bytes")
  structure(
    c(
      list(on = is_on()),
      report,
      list(
        shared = max(0, shared - at(statistics, "snapshot_bytes")),
        zero = at(statistics, "zero_reclaimed_bytes"),
        cached = at(statistics, "cached_bytes"),
        live = at(statistics, "live_bytes"),
        objects = .Call(pagewise_shared_bytes),
        vectors = largest_variables(n)
      )
    ),
    class = "memory_report"
  )
}

largest_variables <- function(n) {
  frames <- data_frames_of_search_path()
  found <- lapply(frames, function(frame) .Call(pagewise_frame, frame))
  all <- data.frame(
    name = as.character(unlist(lapply(found, `[[`, 1))),
    frame = rep(seq_along(frames), vapply(found, function(f) length(f[[1]]), 0L)),
    bytes = as.numeric(unlist(lapply(found, `[[`, 2)))
  )
  snapshots <- do.call(c, c(list(list()), lapply(found, `[[`, 3)))
  keep <- utils::head(order(-all$bytes), n)
  keep <- keep[all$bytes[keep] > 0]
  costs <- vapply(keep, function(i) {
    .Call(pagewise_vectors, frames[[all$frame[i]]], all$name[i])[, 1]
  }, numeric(length(cost_fields())))
  costs <- matrix(costs, nrow = length(cost_fields()), dimnames = list(cost_fields(), NULL))
  known <- costs["known", ] == 1
  column <- function(name) ifelse(known, costs[name, ], NA_real_)
  partners <- vapply(keep, function(i) {
    others <- setdiff(which(vapply(snapshots, function(s) any(s %in% snapshots[[i]]), NA)), i)
    paste(utils::head(all$name[others], 4), collapse = ", ")
  }, "")
  data.frame(
    name = all$name[keep], bytes = all$bytes[keep], own = column("own"), shared = column("shared"),
    absent = column("absent"), huge = ifelse(costs["huge_known", ] == 1, column("huge"), NA_real_),
    shared_with = partners
  )
}

#' @export
format.memory_report <- function(x, ...) {
  value <- function(label, n, note) sprintf("  %-12s %8s  %s", label, bytes(n), note)
  lines <- c(
    sprintf("Memory of this R process (Pagewise is %s)", if (x$on) "on" else "off"),
    value("physical", x$physical, if (x$source == "pss") {
      "distinct pages; shared with other processes in part"
    } else {
      "resident set size: smaps_rollup cannot be read here"
    }),
    value("shared", x$shared, "shown by vectors without pages of their own"),
    value("zero", x$zero, "all-zero pages given back so far"),
    value("cached", x$cached, "free pages kept warm for the next vector"),
    value("huge", x$huge, "in huge pages"),
    if (x$objects > 0) value("share()", x$objects, "in objects that other processes may have as well"),
    if (x$swapped > 0) value("swapped", x$swapped, "on disk")
  )
  v <- x$vectors
  if (nrow(v) == 0) {
    return(lines)
  }
  cells <- rbind(
    c("largest", "bytes", "own", "shared", "absent", "huge", ""),
    cbind(v$name, bytes(v$bytes), bytes(v$own), bytes(v$shared), bytes(v$absent), bytes(v$huge),
      ifelse(nzchar(v$shared_with), paste("with", v$shared_with), ""))
  )
  cells <- apply(cells, 2, function(column) format(column, justify = "right"))
  cells[, 1] <- format(c("largest", v$name))
  cells[, 7] <- trimws(cells[, 7])
  c(lines, "", sub(" +$", "", paste0("  ", apply(cells, 1, paste, collapse = "  "))))
}

#' @export
print.memory_report <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

cost_fields <- function() rownames(.Call(pagewise_vectors, globalenv(), character()))
