# The addin of RStudio (inst/rstudio/addins.dcf): compares what is selected, or the document.
compare_addin <- function() {
  need_packages("rstudioapi", "the addin")
  document <- rstudioapi::getSourceEditorContext()
  if (is.null(document)) {
    fail("no document is open: open an R script, or call pagewise_compare() in the console",
      class = "pagewise_argument_error")
  }
  expression <- expression_of(document)
  runs <- getOption("pagewise.runs", 5)
  asked <- rstudioapi::showQuestion("Compare with and without Pagewise",
    sprintf("This runs the code %.0f times, in R processes of its own. What it writes, sends or deletes, it does each %s",
      2 * runs, "time."), "Run", "Cancel")
  if (!isTRUE(asked)) {
    return(invisible())
  }
  result <- compare_expression(expression, globalenv(), runs = runs)
  print(result)
  plot(result)
  invisible(result)
}

# The selected text, or all of it, as one expression.
expression_of <- function(document) {
  text <- vapply(document$selection, `[[`, "", "text")
  text <- text[nzchar(trimws(text))]
  if (length(text) == 0) {
    if (grepl("\\.(rmd|qmd|rnw|md)$", document$path, ignore.case = TRUE)) {
      fail("a document with text cannot be run as a whole: select the R code that is to be compared",
        class = "pagewise_argument_error")
    }
    text <- document$contents
  }
  found <- tryCatch(parse(text = text, keep.source = FALSE), error = function(e) {
    fail("this is no complete R code:\n", conditionMessage(e), class = "pagewise_argument_error")
  })
  if (length(found) == 0) {
    fail("there is no R code to compare", class = "pagewise_argument_error")
  }
  as.call(c(as.name("{"), as.list(found)))
}
