#' Less memory and less time for large vectors
#'
#' Pagewise serves the large vectors of a session: copies share pages until they are written, pages
#' that are all zero are given back after garbage collections, freed pages stay warm for the next
#' vector, and large pages are used where they help. Loading the package does nothing until
#' [pagewise_on()] is called, or `options(pagewise.autoload = TRUE)` was set before.
#'
#' @seealso [pagewise_on()] to begin; [share()] to hand objects to other processes; [ISM()] for large pages;
#'   [vector_cost()], [memory_report()] and [memory_profile()] to see what memory is used for;
#'   [pagewise_compare()] to see whether it helps an expression;
#'   `vignette("pagewise")` and `vignette("sharing")`.
#' @references
#' H. Kotthaus, I. Korb, M. Engel, P. Marwedel (2014). Dynamic page sharing optimization for the R language.
#' Proceedings of the 10th ACM Symposium on Dynamic Languages (DLS '14). \doi{10.1145/2661088.2661094}
#'
#' I. Korb, H. Kotthaus, P. Marwedel (2016). mmapcopy: Efficient memory footprint reduction using application
#' knowledge. Proceedings of the 31st Annual ACM Symposium on Applied Computing (SAC '16). \doi{10.1145/2851613.2851736}
#'
#' J. Nakano, E. Nakama. Speeding up R by using ISM-like calls. The Institute of Statistical Mathematics.
#' @keywords internal
#' @useDynLib pagewise, .registration = TRUE
"_PACKAGE"
