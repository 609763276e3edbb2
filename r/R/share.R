#' Share an object with other R processes
#'
#' Writes the vectors of an object once into memory that other R processes of the same user on this
#' machine can use, and returns the object with shared vectors in their place. The result is used
#' like the original. Where it is serialised (a cluster of **parallel**, **future**, `saveRDS()`), a
#' handle of about a hundred bytes for each vector is written instead of the data, and the process
#' that reads it sees the same memory: nothing is copied.
#'
#' @section Writing:
#' Every process may change its shared vectors. It then gets pages (4 kB) of its own where it writes, and
#' only there; nobody else sees the change. R's own copies of a shared vector share its pages as
#' well. A vector that was changed travels by value again, until it is shared again.
#'
#' @section Lifetime:
#' The memory lives as long as any process has the object, and the kernel frees it with the last one,
#' however that ends. Keep the result of `share()` in a variable until the others have read their
#' handles; after that the owner may drop it, or end. `readRDS()` of a handle that nobody has any more
#' is an error. Objects that a forked child (`mclapply()`) shares travel by value, because the child
#' has ended when its result is read.
#'
#' @section Who can read it:
#' Only processes of the same user. Handles name the object by a random number; those that are damaged,
#' forged, made on another machine, by another user or by another series of R (4.2, 4.3, ...) are
#' refused with an error that says so.
#'
#' @section What is shared:
#' Vectors of 4 kB and more, wherever they are in the object, in its attributes as well: names, levels,
#' slots of S4 objects. Smaller ones and the lists around them travel by value. Of a character vector
#' the distinct strings and a code for each element are shared; a process puts a string into R's own
#' pool when it first asks for an element that has it. Strings keep their encoding; unmarked text of the
#' session's own encoding becomes UTF-8. Unmarked bytes that are no text in it (accented letters under
#' `LC_ALL=C`, Latin-1 under UTF-8) stay the same bytes, which a session in another locale may read
#' otherwise. Environments, functions and external pointers
#' are refused, except in attributes: the environment of a formula, in the result of `lm()` say, travels as R
#' serialises it, by value unless it is the global one. A process can have 16,000 shared vectors; `share()` warns where there were more. A change
#' of an attribute (`names(x) <- NULL`) makes a new vector in R, which is not shared.
#'
#' @param x A vector, matrix, factor, data frame, or a list of them.
#' @return For `share()`, `x` with shared vectors; `x` itself where nothing in it is large enough.
#'   For `shared_info()`, a data frame of class `shared_info` with a row for each shared vector:
#'   `vector` (where it is in `x`), `type`, `length`, `bytes`, `written` (bytes of pages that this
#'   process has for itself; `NA` where the kernel does not tell), `changed` (it reads otherwise than
#'   when it was shared), `object` (the same for vectors that were shared together), `maker` (the
#'   process that shared it) and `processes` (how many have it now).
#' @examples
#' x <- share(data.frame(a = runif(1e5), b = 1:1e5))
#' length(serialize(x, NULL))
#' x$a[1] <- 0
#' shared_info(x)
#' @export
share <- function(x) {
  warn_of_private_library()
  .Call(pagewise_share, x)
}

# R that finds no class for a shared vector reads an empty one, with a warning that a cluster's worker
# does not show. So it is said here, once, where a new R would not find the package.
warn_of_private_library <- function() {
  if (isTRUE(session$library_checked)) {
    return(invisible())
  }
  session$library_checked <- TRUE
  folders <- c(strsplit(Sys.getenv(c("R_LIBS", "R_LIBS_USER")), ":", fixed = TRUE), .Library.site, .Library)
  own <- dirname(getNamespaceInfo("pagewise", "path"))
  if (!normalizePath(own) %in% normalizePath(path.expand(unlist(folders)), mustWork = FALSE)) {
    warning("a new R process would not find pagewise, which is in ", own, ", and would read shared vectors ",
      "as empty: before starting workers, Sys.setenv(R_LIBS = \"", own, "\")", call. = FALSE)
  }
}

#' @rdname share
#' @export
shared_info <- function(x) {
  name <- deparse1(substitute(x))
  found <- shared_vectors(x, if (nchar(name) > 20) "x" else name)
  column <- function(field, type) vapply(found, `[[`, type, field)
  info <- data.frame(
    vector = column("vector", ""), type = column("type", ""), length = column("length", 0),
    bytes = column("bytes", 0), written = column("written", 0), changed = column("changed", NA),
    object = column("object", ""), maker = column("maker", 0L), processes = column("processes", 0L)
  )
  structure(info, class = c("shared_info", "data.frame"))
}

# The shared vectors of an object, as a list of rows. `known`: processes of objects seen before.
shared_vectors <- function(x, path, known = new.env(parent = emptyenv())) {
  leaf <- .Call(pagewise_shared_leaf, x)
  rows <- list()
  if (!is.null(leaf)) {
    object <- leaf[[4]]
    if (is.null(known[[object]])) {
      known[[object]] <- length(.Call(pagewise_shared_holders, x))
    }
    rows <- list(list(
      vector = path, type = typeof(x), length = as.numeric(length(unclass(x))), bytes = leaf[[1]],
      written = leaf[[2]], changed = leaf[[3]], object = substr(object, 1, 8), maker = leaf[[5]],
      processes = known[[object]]
    ))
  }
  c(rows, shared_elements(x, path, known), shared_attributes(x, path, known))
}

shared_elements <- function(x, path, known) {
  if (!is.list(x)) {
    return(list())
  }
  elements <- unclass(x)
  steps <- sprintf("[[%d]]", seq_along(elements))
  named <- !is.na(names(elements)) & nzchar(names(elements))
  steps[named] <- paste0("$", names(elements)[named])
  do.call(c, lapply(seq_along(elements), function(i) {
    shared_vectors(elements[[i]], paste0(path, steps[[i]]), known)
  }))
}

shared_attributes <- function(x, path, known) {
  found <- attributes(x)
  found <- found[vapply(found, function(value) is.atomic(value) || is.list(value), NA)]
  do.call(c, lapply(names(found), function(name) {
    shared_vectors(found[[name]], sprintf("attr(%s, \"%s\")", path, name), known)
  }))
}

#' @export
format.shared_info <- function(x, ...) {
  if (nrow(x) == 0) {
    return("<shared_info> nothing is shared")
  }
  objects <- unique(data.frame(object = x$object, maker = x$maker, processes = x$processes))
  head <- sprintf("<shared_info> %s shared in %d vector%s; pages of this process's own: %s",
    bytes(sum(x$bytes)), nrow(x), if (nrow(x) == 1) "" else "s",
    if (anyNA(x$written)) "not known" else bytes(sum(x$written)))
  objects <- sprintf("  object %s, shared by process %d, is in %d process%s", objects$object,
    objects$maker, objects$processes, ifelse(objects$processes == 1, "", "es"))
  shown <- utils::head(seq_len(nrow(x)), 20)
  cells <- rbind(
    c("vector", "type", "bytes", "own", ""),
    cbind(x$vector, x$type, bytes(x$bytes), bytes(x$written), ifelse(x$changed, "changed", ""))[shown, ,
      drop = FALSE]
  )
  cells <- apply(cells, 2, function(column) format(column, justify = "right"))
  cells[, 1] <- format(c("vector", x$vector[shown]))
  rows <- sub(" +$", "", paste0("  ", apply(cells, 1, paste, collapse = "  ")))
  more <- if (nrow(x) > 20) sprintf("  ... and %d more", nrow(x) - 20L)
  c(head, utils::head(objects, 5), rows, more)
}

#' @export
print.shared_info <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}
