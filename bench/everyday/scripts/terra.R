# A landscape: elevation, slope and land cover; where is land suitable, and how much of it in each district.
library(terra)
set.seed(33)

side <- 1000
grid <- rast(nrows = side, ncols = side, xmin = 0, xmax = 30000, ymin = 0, ymax = 30000, crs = "EPSG:32632")
coarse <- rast(nrows = 40, ncols = 40, extent = ext(grid), crs = crs(grid), vals = rnorm(1600, 800, 250))
elevation <- resample(coarse, grid, method = "cubicspline")
elevation <- elevation + rast(grid, vals = rnorm(side^2, 0, 5))
names(elevation) <- "elevation"
smoothed <- focal(elevation, w = 7, fun = "mean", na.rm = TRUE)

terrain_layers <- terrain(smoothed, v = c("slope", "aspect", "TPI", "roughness"), unit = "degrees")
shade <- shade(terrain_layers$slope * pi / 180, terrain_layers$aspect * pi / 180, angle = 40, direction = 300)
print(global(c(smoothed, terrain_layers), "mean", na.rm = TRUE))
print(global(shade, "mean", na.rm = TRUE))

cover <- classify(smoothed + rast(grid, vals = rnorm(side^2, 0, 60)), rbind(c(-Inf, 600, 1), c(600, 900, 2), c(900, 1100, 3), c(1100, Inf, 4)))
cover <- focal(cover, w = 3, fun = "modal")
names(cover) <- "cover"
print(freq(cover))

districts <- rast(nrows = 5, ncols = 5, extent = ext(grid), crs = crs(grid), vals = 1:25)
districts <- resample(districts, grid, method = "near")
names(districts) <- "district"
print(head(zonal(terrain_layers$slope, districts, "mean", na.rm = TRUE), 10))
print(head(crosstab(c(districts, cover), long = TRUE), 10))

suitable <- terrain_layers$slope < 4 & cover == 2
patch_layer <- patches(aggregate(suitable, 5, fun = "max"), directions = 8, zeroAsNA = TRUE)
sizes <- freq(patch_layer)
cat("patches:", nrow(sizes), "largest:", max(sizes$count), "cells\n")
away <- distance(aggregate(ifel(suitable, 1, NA), 10, fun = "max", na.rm = TRUE))
print(round(global(away, "max", na.rm = TRUE), 2))

sites <- vect(cbind(runif(3000, 0, 30000), runif(3000, 0, 30000)), crs = crs(grid))
values_at <- extract(c(smoothed, terrain_layers, cover), sites)
print(summary(lm(slope ~ focal_mean + roughness + factor(cover), data = values_at)))
layers <- as.data.frame(c(smoothed, terrain_layers, cover), xy = TRUE, na.rm = TRUE)
print(round(cor(layers), 4))
