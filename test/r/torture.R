# Read by R as it starts, in the configuration `tortured`. When the default packages are attached, what they brought is
# frozen; from then on R collects at every 2003rd allocation. (R does not freeze once it is tortured.)
local({
    Sys.unsetenv("R_TESTS") # processes that the program starts are left alone
    last <- rev(setdiff(getOption("defaultPackages"), "methods"))[1]
    setHook(packageEvent(last, "attach"), function(...) {
        dyn.load(file.path(dirname(Sys.getenv("LD_PRELOAD")), "libpagewise.so"))
        why <- .C("pw_freeze_now", 1L, 0L, why = "")$why
        if (nzchar(why)) stop("not frozen: ", why)
        gctorture2(2003)
    })
})
