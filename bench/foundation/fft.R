# Fast Fourier transforms of 2,400,000 values (R benchmark 2.5, matrix functions 1), eight times.
set.seed(25)
total <- 0
for (i in 1:8) {
  a <- rnorm(2400000)
  b <- fft(a)
  total <- total + sum(Mod(b[1:1000]))
}
cat(format(total, digits = 10), "\n")
