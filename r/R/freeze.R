#' Keep packages shared with forked workers
#'
#' Workers that are forked from a session (`parallel::mclapply()`, Rserve, servers that load packages first) share its
#' memory until they write to it. A garbage collection writes to every object, so that a worker soon has a copy of all
#' that packages brought. After `pagewise_freeze()` no collection visits these objects any more, here or in workers,
#' and their pages stay shared.
#'
#' Call it when packages are loaded, before the first worker is forked, and again when more were loaded. It takes as long
#' as several full collections. What the program computes is not changed. `gc()` shows fewer cells: frozen ones are
#' not counted. An object of a package that is dropped later (a function that is replaced) stays until packages are
#' unloaded, `pagewise_off()` is called, or this function again.
#'
#' It never stops a program. Where R's collector is not one that Pagewise knows (R 4.2, 4.5 and 4.6 on x86-64), nothing is
#' frozen, and a warning says why.
#'
#' @return Invisibly, whether packages are frozen now.
#' @seealso [pagewise_on()], which must come first; [share()] for data that workers need.
#' @examples
#' pagewise_on()
#' frozen <- suppressWarnings(pagewise_freeze())
#' parallel::mclapply(1:2, function(i) i^2)
#' pagewise_off()
#' @export
pagewise_freeze <- function() {
  if (!is_on()) {
    fail("pagewise_freeze() needs Pagewise to be on. Call pagewise_on() first.", class = "pagewise_unavailable")
  }
  reason <- .Call(pagewise_freeze_for_forks)
  if (!is.null(reason)) {
    warn("nothing was frozen: ", reason, ". Workers work as without it, in more memory.")
    return(invisible(FALSE))
  }
  invisible(TRUE)
}
