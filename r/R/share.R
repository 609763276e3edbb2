#' Share an object with other R processes
#'
#' Writes the vectors of an object once into memory that other R processes of the same user on this
#' machine can use, and returns the object with shared vectors in their place. The result is used
#' like the original. Where it is sent to a worker on this machine (a cluster of **parallel** or
#' **future**), a handle of about a hundred bytes for each vector is written instead of the data, and
#' the process that reads it sees the same memory: nothing is copied.
#'
#' @section Handle or data:
#' Handles are written by `serialize()` to a socket whose other end is on this machine, and for results of
#' `mclapply()`. Everything else gets the data: `saveRDS()`, `save()`, caches, hashes (`rlang::hash()`),
#' `serialize(x, NULL)`. So does a socket where a new R process would not find this package; `share()` warns of that.
#' `options(pagewise.handles = TRUE)` writes handles everywhere (for other ways to send an object to a process that reads
#' it at once), `FALSE` nowhere. A process that reads a handle and cannot load the package gets an error.
#'
#' @section Writing:
#' Every process may change its shared vectors. It then gets pages (4 kB) of its own where it writes, and
#' only there; nobody else sees the change. R's own copies of a shared vector share its pages as
#' well. A vector that was changed travels by value again, until it is shared again.
#'
#' @section Lifetime:
#' The memory lives as long as any process has the object, and the kernel frees it with the last one,
#' however that ends. Keep the result of `share()` in a variable until the others have read their
#' handles; after that the owner may drop it, or end. Reading a handle of an object that nobody has any more
#' is an error. Objects that a forked child (`mclapply()`) shares or reads itself travel by value, because the child
#' has ended when its result is read.
#'
#' Each call takes one descriptor (`ulimit -n`) in every process that has the result: share a list in place of many
#' vectors. Results that were dropped are collected before they are in the way of other files.
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
#' session's own encoding stays unmarked in sessions of UTF-8, and is UTF-8 in others. Unmarked bytes that are no text in it (accented letters under
#' `LC_ALL=C`, Latin-1 under UTF-8) stay the same bytes, which a session in another locale may read
#' otherwise. Environments, functions and external pointers
#' are refused, except in attributes: the environment of a formula, in the result of `lm()` say, travels as R
#' serialises it, by value unless it is the global one. A process can have 16,000 shared vectors; `share()` warns where there were more. A change
#' of an attribute (`names(x) <- NULL`) makes a new vector in R, which is not shared.
#'
#' @param x A vector, matrix, factor, data frame, or a list of them.
#' @return For `share()`, `x` with shared vectors; `x` itself where nothing in it is large enough.
#'   For `shared_info()`, a data frame of class `shared_info` with a row for each shared vector:
#'   `vector` (where it is in `x`), `type`, `length`, `bytes`, `written` (bytes that this process has for itself:
#'   pages that it wrote, and R's pointers to strings that were read; `NA` where the kernel does not tell), `changed` (it reads otherwise than
#'   when it was shared), `object` (the same for vectors that were shared together), `maker` (the
#'   process that shared it) and `processes` (how many have it now).
#' @seealso [vector_cost()], and `vignette("sharing")`.
#' @examples
#' x <- share(data.frame(a = runif(1e5), b = 1:1e5))
#' x$a[1] <- 0
#' shared_info(x)
#' @export
share <- function(x) {
  warn_of_private_library()
  .Call(pagewise_share, x)
}

# Said once: sending takes longer than it need then.
warn_of_private_library <- function() {
  if (isTRUE(session$library_checked)) {
    return(invisible())
  }
  session$library_checked <- TRUE
  if (is.null(getOption("pagewise.handles")) && !found_by_new_r()) {
    warn("a new R process would not find pagewise, which is in ", session$library, ": shared vectors are sent ",
      "to workers by value. So that they get handles, before starting them: Sys.setenv(R_LIBS = \"", session$library, "\")")
  }
}

# Would a new R process, a worker, find the package where this one found it?
found_by_new_r <- function() {
  asked <- Sys.getenv(c("R_LIBS", "R_LIBS_USER"))
  if (!identical(asked, session$libraries_asked)) {
    folders <- path.expand(c(unlist(strsplit(asked, ":", fixed = TRUE)), .Library.site, .Library))
    # The package's own folders: a library may hold a link to a package that lies in another.
    place <- function(libraries) normalizePath(file.path(libraries, "pagewise"), mustWork = FALSE)
    session$found_by_new_r <- place(session$library) %in% place(folders)
    session$libraries_asked <- asked
  }
  session$found_by_new_r
}

# Asked by share_send.c for each shared vector that is being serialised: is a handle written, or its data?
# A handle is right where it is read at once, by a process that has the package. Everything else (files,
# caches, hashes, databases) keeps or compares what is written, and gets the data.
travels_by_handle <- function() {
  asked <- getOption("pagewise.handles")
  if (!is.null(asked)) {
    return(isTRUE(asked))
  }
  frame <- sys.nframe() - 1L # of the function that serialises
  if (frame < 1L || !is_base_serialize(sys.function(frame))) {
    return(FALSE)
  }
  # A list may hold thousands of vectors: the answer is kept where it ends with the call.
  call <- sys.frame(frame)
  if (is.null(call$.pagewise)) {
    call$.pagewise <- if (is.null(call$connection)) {
      is_result_of_fork(frame)
    } else {
      is_socket_to_this_machine(call$connection) && found_by_new_r()
    }
  }
  call$.pagewise
}

is_base_serialize <- function(f) {
  identical(environment(f), .BaseNamespaceEnv) && identical(formals(f), formals(serialize))
}

# As clusters of parallel, snow, future and BiocParallel have them.
is_socket_to_this_machine <- function(connection) {
  if (!inherits(connection, "sockconn")) {
    return(FALSE)
  }
  host <- sub("^(<-|->)(.*):[0-9]+$", "\\2", summary(connection)$description)
  host %in% c("localhost", "localhost.localdomain", "127.0.0.1", "::1", Sys.info()[["nodename"]])
}

# Is this parallel's own code that sends what a forked child found to its parent (mclapply())? What the user's
# functions do with serialize() there is theirs.
is_result_of_fork <- function(frame) {
  caller <- sys.parents()[[frame]]
  caller > 0L && isNamespaceLoaded("parallel") &&
    identical(sys.call(frame)[[1]], quote(serialize)) &&
    identical(topenv(sys.frame(caller)), getNamespace("parallel"))
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

#' Shared vectors by name, also between R and Python
#'
#' `shared_name()` gives the name of a vector of [share()], a string of 170 characters that can be sent in any way: in a
#' file, a message, an argument of a command. `map_shared()` opens the vector in another process of the same user on
#' this machine, which sees the same memory. Python has `pagewise.shared_name()` and `pagewise.map_shared()`: names of
#' either are good in both.
#'
#' @section Types:
#' | R | NumPy |
#' |---|---|
#' | `double` | `float64` |
#' | `integer` | `int32` |
#' | `logical` | `int32` (0, 1, and -2147483648 for `NA`; `bool` has one byte and cannot be shared with R) |
#' | `complex` | `complex128` |
#' | `raw` | `uint8` |
#'
#' Numbers are handed over alone, without names, dimensions, levels or class. `NA_integer_` is -2147483648, which NumPy takes
#' for a number; the other way round that number becomes `NA`. `NA_real_` is one of the NaN: NumPy sees a NaN, and gives it
#' back as it was, unless it calculates with it.
#'
#' @section Lifetime:
#' A name keeps nothing alive: it is good as long as any process has the vector ([share()] says more). Every process may write,
#' and then has pages of its own, which nobody else sees. A vector that was changed has no name until it is shared again.
#'
#' @param x A shared vector, not changed since.
#' @return For `shared_name()`, a string.
#' @seealso [share()], which needs no names between R processes.
#' @examples
#' x <- share(runif(1e5))
#' name <- shared_name(x)
#' y <- map_shared(name) # in any process
#' identical(x, y)
#' @export
shared_name <- function(x) {
  if (!(typeof(x) %in% c("double", "integer", "logical", "complex", "raw"))) {
    fail("`x` must be a vector of numbers, logicals or bytes: ", typeof(x), " has no name that others can open",
      if (is.list(x)) ". Name its elements", class = "pagewise_argument_error")
  }
  leaf <- .Call(pagewise_shared_leaf, x)
  if (is.null(leaf)) {
    fail("`x` is not shared: call share(x) first, and keep its result. Vectors under 4 kB (512 doubles) never are",
      class = "pagewise_argument_error")
  }
  if (leaf[[3]]) {
    fail("`x` was changed since it was shared: call share(x) again, and keep its result", class = "pagewise_argument_error")
  }
  handle <- .Call(pagewise_shared_handle, x)
  if (is.null(handle)) {
    fail("`x` was shared or opened in this forked process: the name would end with it. Share it in the parent, before",
      class = "pagewise_unavailable")
  }
  paste0(name_prefix, paste(as.character(handle), collapse = ""))
}

name_prefix <- "pagewise:"

#' @rdname shared_name
#' @param name What `shared_name()` gave, here or in Python.
#' @return For `map_shared()`, a shared vector. Errors have the class `pagewise_share_error`.
#' @export
map_shared <- function(name) {
  if (!is.character(name) || length(name) != 1 || is.na(name)) {
    fail("`name` must be one string, as shared_name() gives it", class = "pagewise_argument_error")
  }
  digits <- substring(name, nchar(name_prefix) + 1)
  if (!startsWith(name, name_prefix) || nchar(digits) %% 2 != 0 || !grepl("^[0-9a-f]+$", digits)) {
    fail("this is no name of a shared vector, or was cut short: it must be as shared_name() gives it, \"", name_prefix,
      "\" and 160 digits", class = c("pagewise_share_error", "pagewise_argument_error"))
  }
  starts <- seq(1, nchar(digits), 2)
  handle <- as.raw(strtoi(substring(digits, starts, starts + 1), 16L))
  tryCatch(.Call(pagewise_shared_open, handle), error = function(e) {
    fail(conditionMessage(e), class = "pagewise_share_error")
  })
}

#' @rdname share
#' @return For `is_shared()`, `TRUE` where a vector of `x` is shared, wherever it is in `x`.
#' @export
is_shared <- function(x) {
  if (!is.null(.Call(pagewise_shared_leaf, x))) {
    return(TRUE)
  }
  inside <- c(if (is.list(x)) unclass(x), attributes(x))
  inside <- inside[vapply(inside, function(value) is.atomic(value) || is.list(value), NA)]
  any(vapply(inside, is_shared, NA))
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
