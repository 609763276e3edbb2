# Run by R CMD INSTALL in place of its own copying: the core goes beside the package's library.
libraries <- c(paste0("pagewise", SHLIB_EXT), "libpagewise.so.0")
target <- file.path(R_PACKAGE_DIR, paste0("libs", R_ARCH))
dir.create(target, recursive = TRUE, showWarnings = FALSE)
copied <- file.copy(libraries, target, overwrite = TRUE)
if (!all(copied)) {
    stop("could not copy to ", target, ": ", paste(libraries[!copied], collapse = ", "))
}
