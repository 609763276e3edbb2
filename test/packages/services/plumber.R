# A copy of a large vector with one change, and whether the library is in this process.
kept <- rep(1, 2^25)

#* @get /change
#* @serializer text
function() {
  changed <- kept
  changed[1] <- 2
  maps <- readLines("/proc/self/maps")
  paste(sum(changed), if (any(grepl("libpagewise-preload.so", maps))) "managed" else "plain")
}
