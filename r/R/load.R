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
}
