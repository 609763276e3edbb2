#' Less memory and less time for large vectors
#'
#' Pagewise serves the large vectors of a session: copies share pages until they are written, pages
#' that are all zero are given back after garbage collections, freed pages stay warm for the next
#' vector, and large pages are used where they help. Loading the package does nothing until
#' [pagewise_on()] is called, or `options(pagewise.autoload = TRUE)` was set before.
#'
#' @keywords internal
#' @useDynLib pagewise, .registration = TRUE
"_PACKAGE"
