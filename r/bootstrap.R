# Run by pkgbuild and r-universe before R CMD build, in this folder of a clone: the core's sources go into src/core.
status <- system2("../scripts/r-core", ".")
if (status != 0) stop("scripts/r-core failed: this folder must lie in a clone of Pagewise")
