# Ten vectors of 16 MB, and of each a copy of which one element is written: kept, all of them. Before
# that a package is loaded and used that keeps threads: copies.R PACKAGE.
what <- commandArgs(TRUE)[1]
use <- list(
  nothing = function() NULL,
  openblas = function() {
    m <- matrix(1, 800, 800)
    m %*% m
  },
  data.table = function() {
    data.table::setDTthreads(2)
    d <- data.table::data.table(a = sample(1e6))
    data.table::setkey(d, a)
  },
  cli = function() loadNamespace("cli"),
  later = function() later::later(function() NULL, 1000),
  httpuv = function() {
    httpuv::startServer("127.0.0.1", httpuv::randomPort(), list(call = function(request) NULL))
  }
)
use$RcppParallel <- function() {
  RcppParallel::setThreadOptions(2)
  Rcpp::sourceCpp(code = '// [[Rcpp::depends(RcppParallel)]]
#include <Rcpp.h>
#include <RcppParallel.h>
struct Fill : public RcppParallel::Worker {
    RcppParallel::RVector<double> x;
    Fill(Rcpp::NumericVector x) : x(x) {}
    void operator()(std::size_t begin, std::size_t end) { for (; begin < end; begin++) x[begin] = begin; }
};
// [[Rcpp::export]]
void fill(Rcpp::NumericVector x) { Fill worker(x); RcppParallel::parallelFor(0, x.size(), worker); }')
  fill(numeric(1e6))
}
invisible(use[[what]]())
kept <- list()
for (k in 1:10) {
  x <- runif(2e6)
  y <- x
  y[k] <- 1
  kept[[k]] <- list(x, y)
}
