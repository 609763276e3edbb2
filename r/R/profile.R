#' The memory of an expression over time
#'
#' Evaluates an expression and watches the physical memory of this process meanwhile, by time. The
#' result has the curve, its peak and its time-weighted average, and the expression's value.
#'
#' A thread of its own looks at `/proc/self/status`, which takes some 20 microseconds. Snapshots of
#' Pagewise are counted once, however many vectors show their pages. Children of this process are not
#' counted. If the expression fails, its error is passed on.
#'
#' A million samples are kept (about three hours at the default interval). Where there would be more,
#' every second one is dropped and the interval doubled, as often as needed; the peak is kept.
#'
#' @param expr An expression, evaluated where it stands.
#' @param interval Seconds between two looks, from 0.001 to 60.
#' @return A list of class `memory_profile`: `samples` (a data frame: `time` in seconds; `physical`,
#'   `snapshots` and `cached` in bytes), `peak`, `average`, `start` and `end` in bytes, `elapsed` in
#'   seconds, and `value`. `plot()` draws the curve, `summary()` gives the figures alone.
#' @seealso [memory_report()] for one moment.
#' @examples
#' p <- memory_profile({
#'   x <- runif(2e6)
#'   sum(sort(x))
#' })
#' p
#' plot(p)
#' @export
memory_profile <- function(expr, interval = 0.01) {
  if (!is.numeric(interval) || length(interval) != 1 || is.na(interval) || interval < 0.001 || interval > 60) {
    fail("`interval` must be a number of seconds from 0.001 to 60, not ", deparse1(interval),
      class = "pagewise_argument_error")
  }
  label <- deparse1(substitute(expr), collapse = " ")
  handle <- .Call(pagewise_profile_start, as.double(interval), most_samples)
  if (is.null(handle)) {
    fail("/proc/self/status cannot be read here, or no thread can be started: no profile", class = "pagewise_unavailable")
  }
  on.exit(.Call(pagewise_profile_stop, handle))
  value <- withVisible(expr)$value
  samples <- .Call(pagewise_profile_stop, handle)
  on.exit()
  new_memory_profile(as.data.frame(samples), value, label, interval)
}

most_samples <- 2^20

new_memory_profile <- function(samples, value, label, interval) {
  names(samples) <- c("time", "physical", "snapshots", "cached")
  last <- nrow(samples)
  lengths <- diff(samples$time)
  average <- if (last > 1 && sum(lengths) > 0) {
    sum(lengths * (samples$physical[-1] + samples$physical[-last]) / 2) / sum(lengths)
  } else {
    mean(samples$physical)
  }
  structure(
    list(
      samples = samples, peak = max(samples$physical), average = average,
      start = samples$physical[[1]], end = samples$physical[[last]],
      elapsed = samples$time[[last]], interval = interval, label = label, value = value
    ),
    class = "memory_profile"
  )
}

#' @export
format.memory_profile <- function(x, ...) {
  label <- if (nchar(x$label) > 60) paste0(substr(x$label, 1, 57), "...") else x$label
  c(
    sprintf("<memory_profile> %s", label),
    sprintf("  peak     %8s  (%s above the start)", bytes(x$peak), bytes(x$peak - x$start)),
    sprintf("  average  %8s  over %.3g s, %d samples", bytes(x$average), x$elapsed, nrow(x$samples)),
    sprintf("  end      %8s", bytes(x$end))
  )
}

#' @export
print.memory_profile <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}

#' @export
summary.memory_profile <- function(object, ...) {
  unlist(object[c("peak", "average", "start", "end", "elapsed")])
}

#' @export
plot.memory_profile <- function(x, ..., main = x$label, xlab = "seconds", ylab = "physical memory (MB)") {
  s <- x$samples
  main <- if (nchar(main) > 60) paste0(substr(main, 1, 57), "...") else main
  graphics::plot(s$time, s$physical / 1e6, type = "n", ylim = c(0, x$peak / 1e6 * 1.08), main = main,
    xlab = xlab, ylab = ylab, bty = "l", ...)
  last <- nrow(s)
  graphics::polygon(c(s$time[[1]], s$time, s$time[[last]]), c(0, s$physical / 1e6, 0),
    col = "#9dc3e6", border = NA)
  graphics::lines(s$time, s$physical / 1e6, col = "#3b6ea5", lwd = 2)
  graphics::abline(h = x$peak / 1e6, lty = 3)
  graphics::abline(h = x$average / 1e6, lty = 2)
  graphics::legend("bottomright", c(paste("peak", bytes(x$peak)), paste("average", bytes(x$average))),
    lty = c(3, 2), bg = "white", box.col = NA)
  invisible(x)
}
