# What all results have: data frames, columns of bytes, plots, tables in documents.

# --- bytes ---------------------------------------------------------------------

#' Numbers of bytes
#'
#' The columns of `as.data.frame()` of results are numbers of this class: they print as `"1.2 MB"` (in powers of 1000, as
#' the command `pagewise` does) and sort, add up and compare as the numbers that they are.
#'
#' @param x A number of bytes for each element; `NA` is not known.
#' @param ... Further arguments are for other methods.
#' @return A vector of class `pagewise_bytes`. `as.numeric()` gives plain numbers back.
#' @seealso [memory_report()], [vector_cost()]
#' @examples
#' sizes <- as_bytes(c(b = 2e6, a = 1234))
#' sizes
#' sort(sizes)
#' sum(sizes)
#' @export
as_bytes <- function(x) {
  if (!is.numeric(x) && !all(is.na(x))) {
    fail("`x` must be numbers of bytes, not ", class(x)[[1]], class = "pagewise_argument_error")
  }
  new_bytes(stats::setNames(as.numeric(x), names(x)))
}

new_bytes <- function(x) structure(x, class = "pagewise_bytes")

#' @rdname as_bytes
#' @export
format.pagewise_bytes <- function(x, ...) {
  text <- if (length(x)) bytes(as.numeric(x)) else character()
  stats::setNames(format(text, justify = "right"), names(x))
}

#' @rdname as_bytes
#' @export
print.pagewise_bytes <- function(x, ...) {
  if (length(x)) print(format(x), quote = FALSE) else cat("<pagewise_bytes[0]>\n")
  invisible(x)
}

#' @export
as.character.pagewise_bytes <- function(x, ...) if (length(x)) bytes(as.numeric(x)) else character()

#' @export
`[.pagewise_bytes` <- function(x, ...) new_bytes(NextMethod())

#' @export
`[[.pagewise_bytes` <- function(x, ...) new_bytes(NextMethod())

#' @export
c.pagewise_bytes <- function(...) new_bytes(unlist(lapply(list(...), unclass)))

#' @export
rep.pagewise_bytes <- function(x, ...) new_bytes(NextMethod())

#' @export
unique.pagewise_bytes <- function(x, ...) new_bytes(NextMethod())

#' @export
Summary.pagewise_bytes <- function(..., na.rm = FALSE) {
  value <- do.call(.Generic, c(lapply(list(...), unclass), na.rm = na.rm))
  if (.Generic %in% c("sum", "min", "max", "range")) new_bytes(value) else value
}

#' @export
mean.pagewise_bytes <- function(x, ...) new_bytes(mean(unclass(x), ...))

# Bytes plus or minus bytes, or times a number, are bytes. A ratio is none, nor is a comparison.
#' @export
Ops.pagewise_bytes <- function(e1, e2) {
  both <- !missing(e2) && inherits(e1, "pagewise_bytes") && inherits(e2, "pagewise_bytes")
  operands <- if (missing(e2)) list(unclass(e1)) else list(unclass(e1), unclass(e2))
  value <- do.call(.Generic, operands)
  keeps <- .Generic %in% c("+", "-", "%%") || (.Generic %in% c("*", "/") && !both && inherits(e1, "pagewise_bytes")) ||
    (.Generic == "*" && !both)
  if (keeps) new_bytes(value) else value
}

#' @export
as.data.frame.pagewise_bytes <- as.data.frame.vector

# --- data frames ---------------------------------------------------------------

bytes_columns <- function(frame, columns) {
  frame[columns] <- lapply(frame[columns], as_bytes)
  frame
}

#' @export
as.data.frame.vector_cost <- function(x, row.names = NULL, optional = FALSE, ...) {
  columns <- c("bytes", "own", "shared", "published", "absent", "swapped", "compact", "huge", "managed")
  frame <- as.data.frame(unclass(x)[columns], row.names = row.names)
  frame <- cbind(name = x$name, vectors = x$vectors, frame)
  frame$shared_with <- paste(x$shared_with, collapse = ", ")
  bytes_columns(frame, columns)
}

#' @export
as.data.frame.memory_report <- function(x, row.names = NULL, optional = FALSE, ...) {
  frame <- bytes_columns(x$vectors, c("bytes", "own", "shared", "absent", "huge"))
  if (!is.null(row.names)) {
    row.names(frame) <- row.names
  }
  frame
}

#' @export
as.data.frame.memory_profile <- function(x, row.names = NULL, optional = FALSE, ...) {
  frame <- bytes_columns(x$samples, c("physical", "snapshots", "cached"))
  if (!is.null(row.names)) {
    row.names(frame) <- row.names
  }
  frame
}

#' @export
as.data.frame.pagewise_status <- function(x, row.names = NULL, optional = FALSE, ...) {
  statistics <- x$statistics
  data.frame(statistic = as.character(names(statistics)), value = as.numeric(unname(statistics)), row.names = row.names)
}

#' @export
as.data.frame.shared_info <- function(x, row.names = NULL, optional = FALSE, ...) {
  class(x) <- "data.frame"
  frame <- bytes_columns(x, c("bytes", "written"))
  if (!is.null(row.names)) {
    row.names(frame) <- row.names
  }
  frame
}

#' @export
as.data.frame.pagewise_comparison <- function(x, row.names = NULL, optional = FALSE, ...) {
  frame <- bytes_columns(x$measurements, c("peak", "average"))
  if (!is.null(row.names)) {
    row.names(frame) <- row.names
  }
  frame
}

# --- plots ---------------------------------------------------------------------

colours_of_parts <- c(own = "#3b6ea5", shared = "#9dc3e6", absent = "#e8e8e8")

# Horizontal bars: a column of `parts` (in bytes) for each name, the first on top.
plot_parts <- function(parts, names, main, ...) {
  parts[is.na(parts)] <- 0
  from_below <- rev(seq_len(ncol(parts)))
  old <- graphics::par(mar = c(4, 8, 2, 1))
  on.exit(graphics::par(old))
  colours <- unname(colours_of_parts[seq_len(nrow(parts))])
  graphics::barplot(parts[, from_below, drop = FALSE] / 1e6, names.arg = names[from_below], horiz = TRUE, las = 1,
    col = colours, border = NA, xlab = "MB", main = main, ...)
  graphics::legend("bottomright", rownames(parts), fill = colours, border = NA, bty = "n")
}

#' @export
plot.memory_report <- function(x, ..., main = "What the largest variables cost") {
  v <- x$vectors
  if (nrow(v) == 0) {
    fail("there are no variables to plot", class = "pagewise_argument_error")
  }
  plot_parts(rbind(own = v$own, shared = v$shared, absent = v$absent), v$name, main, ...)
  invisible(x)
}

#' @export
plot.vector_cost <- function(x, ..., main = paste("What", x$name, "costs")) {
  if (!x$known) {
    fail("this kernel or container does not show the process its page table: there is nothing to plot",
      class = "pagewise_unavailable")
  }
  plot_parts(rbind(own = x$own, shared = x$shared, absent = x$absent), x$name, main, ...)
  invisible(x)
}

#' @export
plot.shared_info <- function(x, ..., main = "Shared vectors, and what this process wrote of them") {
  if (nrow(x) == 0) {
    fail("nothing is shared: there is nothing to plot", class = "pagewise_argument_error")
  }
  largest <- utils::head(order(-x$bytes), 20)
  written <- pmin(x$written, x$bytes)[largest]
  written[is.na(written)] <- 0
  plot_parts(rbind(own = written, shared = x$bytes[largest] - written), x$vector[largest], main, ...)
  invisible(x)
}

#' @export
plot.pagewise_status <- function(x, ..., main = "What Pagewise saved so far") {
  if (is.null(x$statistics)) {
    fail("Pagewise was not switched on yet: there is nothing to plot. Call pagewise_on() first.",
      class = "pagewise_argument_error")
  }
  names <- c("copies shared" = "shared_copy_bytes", "zeros given back" = "zero_reclaimed_bytes", "kept warm" = "cached_bytes")
  values <- vapply(names, function(name) at(x$statistics, name), 0)
  old <- graphics::par(mar = c(4, 9, 2, 1))
  on.exit(graphics::par(old))
  graphics::barplot(rev(values) / 1e6, horiz = TRUE, las = 1, col = colours_of_parts[["own"]], border = NA, xlab = "MB",
    main = main, ...)
  invisible(x)
}

#' @export
plot.pagewise_comparison <- function(x, ..., main = x$label, ylab = "physical memory (MB)") {
  main <- if (nchar(main) > 60) paste0(substr(main, 1, 57), "...") else main
  rows <- x$figures[x$figures$figure %in% c("peak", "average"), ]
  means <- rbind(plain = rows$plain, pagewise = rows$pagewise) / 1e6
  runs <- lapply(rows$figure, function(figure) split(x$measurements[[figure]] / 1e6, x$measurements$configuration != "plain"))
  highest <- max(means, unlist(runs), na.rm = TRUE)
  colours <- unname(colours_of_parts[c("absent", "own")])
  at <- graphics::barplot(means, beside = TRUE, names.arg = names_of_figures[rows$figure], col = colours, border = NA,
    ylim = c(0, highest * 1.2), ylab = ylab, main = main, ...)
  for (i in seq_along(runs)) {
    for (j in 1:2) {
      graphics::points(rep(at[j, i], length(runs[[i]][[j]])), runs[[i]][[j]], pch = 1)
    }
  }
  graphics::legend("topright", c("plain", x$policy), fill = colours, border = NA, bty = "n", horiz = TRUE)
  invisible(x)
}

# --- documents of knitr ----------------------------------------------------------

# A table in place of the printed text; `head` is the line above it.
table_of_document <- function(x, head, frame = as.data.frame(x), ...) {
  is_size <- vapply(frame, inherits, NA, "pagewise_bytes")
  frame[is_size] <- lapply(frame[is_size], as.character)
  knitr::asis_output(paste0(head, "\n\n", paste(knitr::kable(frame, ...), collapse = "\n"), "\n\n"))
}

#' @exportS3Method knitr::knit_print
knit_print.memory_report <- function(x, ...) {
  head <- sprintf("Physical memory of this R process: %s; %s are shared by copies, %s kept warm.", bytes(x$physical),
    bytes(x$shared), bytes(x$cached))
  table_of_document(x, head)
}

#' @exportS3Method knitr::knit_print
knit_print.vector_cost <- function(x, ...) {
  table_of_document(x, sprintf("What `%s` costs.", x$name))
}

#' @exportS3Method knitr::knit_print
knit_print.shared_info <- function(x, ...) {
  if (nrow(x) == 0) {
    return(knitr::asis_output("Nothing is shared.\n\n"))
  }
  table_of_document(x, sprintf("%s are shared.", bytes(sum(x$bytes))))
}

#' @exportS3Method knitr::knit_print
knit_print.pagewise_comparison <- function(x, ...) {
  table_of_document(x, paste0(paste(remarks_on(x), collapse = ". "), "."), cells_of_figures(x$figures))
}
