# What R calls when it loads, attaches and unloads the package.

.onLoad <- function(libname, pkgname) {
  session$library <- libname
  .Call(pagewise_share_decide, travels_by_handle)
  if (isTRUE(getOption("pagewise.autoload", FALSE)) && !is_on()) {
    session$autoload <- tryCatch({
      pagewise_on()
      NULL
    }, error = conditionMessage)
  }
}

# The core stays loaded, as blocks of it live on; but it serves no new ones behind the user's back.
.onUnload <- function(libpath) {
  if (is_on() && !is_preloaded()) {
    pagewise_off()
  }
}

.onAttach <- function(libname, pkgname) {
  if (!is.null(session$autoload)) {
    packageStartupMessage("pagewise.autoload: ", session$autoload)
  }
  for (other in packages_of_same_names) {
    tell_of_same_names(other)
    if (!isTRUE(session$watches_names)) {
      setHook(packageEvent(other, "attach"), function(name, ...) tell_of_same_names(name))
    }
  }
  session$watches_names <- TRUE
}

# They share objects between processes as well, by functions of the same names.
packages_of_same_names <- c("mori", "shard", "SharedObject")

# Whichever is attached last is called by the bare name: R says so of one order of attaching alone.
tell_of_same_names <- function(other) {
  if (!paste0("package:", other) %in% search()) {
    return(invisible())
  }
  same <- intersect(getNamespaceExports("pagewise"), getNamespaceExports(other))
  if (length(same)) {
    packageStartupMessage("pagewise and ", other, " both have ", paste0(same, "()", collapse = ", "),
      ": what one shares the other does not know. Write pagewise::", same[[1]], "() or ", other, "::", same[[1]], "().")
  }
}
