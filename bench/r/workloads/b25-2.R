# FFT of 2,400,000 random values (R benchmark 2.5, matrix functions 1).
folder <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(folder, "common.R"))
sizes <- list(
  full = list(values = 2400000, repeats = 200),
  small = list(values = 4800000, repeats = 35), # 2,400,000 values take less than R itself
  tiny = list(values = 20000, repeats = 2))
workload(character(), sizes, function(size) {
  for (i in seq_len(size$repeats)) transformed <- fft(rnorm(size$values))
  cat("transformed", length(transformed), digest(transformed), "\n")
})
