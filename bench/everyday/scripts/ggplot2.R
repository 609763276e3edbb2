# A report of figures on the diamonds data, each saved to a file.
library(ggplot2)
set.seed(9)

folder <- tempfile("figures")
dir.create(folder)
save_figure <- function(name, figure) {
  ggsave(file.path(folder, paste0(name, ".pdf")), figure, width = 7, height = 5)
  cat(name, "saved:", file.exists(file.path(folder, paste0(name, ".pdf"))), "\n")
}

diamonds$volume <- with(diamonds, x * y * z)
diamonds <- subset(diamonds, volume > 0 & volume < 800)
some <- diamonds[sample(nrow(diamonds), 8000), ]

scatter <- ggplot(some, aes(carat, price, colour = clarity)) +
  geom_point(alpha = .4, size = .6) + scale_x_log10() + scale_y_log10() + theme_minimal() +
  labs(title = "Price by weight", x = "carat", y = "price, US$")
save_figure("scatter", scatter)

smooth <- scatter + geom_smooth(method = "loess", formula = y ~ x, se = FALSE, span = .5, data = some[1:2000, ], colour = "black")
save_figure("smooth", smooth)
print(head(layer_data(smooth, 2)[, c("x", "y")]))

facets <- ggplot(diamonds, aes(price, fill = cut)) + geom_histogram(bins = 60) + facet_grid(cut ~ clarity, scales = "free_y")
save_figure("histograms", facets)
print(head(layer_data(facets)[, c("PANEL", "x", "count")]))

boxes <- ggplot(diamonds, aes(cut, price / carat, fill = color)) + geom_boxplot(outlier.size = .3) + scale_fill_brewer(palette = "Blues")
save_figure("boxes", boxes)
print(head(layer_data(boxes)[, c("ymin", "lower", "middle", "upper", "ymax")]))

density <- ggplot(diamonds, aes(depth, table)) + geom_density_2d_filled(n = 80) + facet_wrap(~cut) + coord_cartesian(xlim = c(58, 66), ylim = c(52, 64))
save_figure("density", density)
print(table(layer_data(density)$level))

bins <- ggplot(diamonds, aes(volume, price)) + stat_bin_2d(bins = 80) + facet_wrap(~color) + theme_bw()
save_figure("bins", bins)
violins <- ggplot(diamonds, aes(clarity, log(price), fill = clarity)) + geom_violin() + stat_summary(fun = median, geom = "point")
save_figure("violins", violins)
print(aggregate(price ~ cut + color, diamonds, median)[1:10, ])
