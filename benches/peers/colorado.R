# Writes the climate stations of Colorado from the R package fields, for docs/places.md: colorado.csv has the mean of the daily
# maximum temperature over 1961 to 1990 by station and month, and map.csv has a grid of elevations, for January and July.

suppressPackageStartupMessages(library(fields))
data(COmonthlyMet)
tmax <- CO.tmax[CO.years >= 1961 & CO.years <= 1990, , ]
rows <- expand.grid(month = 1:12, at = seq_along(CO.id))
stations <- data.frame(
  station = CO.id[rows$at], round(CO.loc[rows$at, ], 4), elevation = CO.elev[rows$at], month = rows$month,
  tmax = round(c(apply(tmax, 2:3, mean, na.rm = TRUE)), 2)
)
# A mean needs half of the 30 years.
years <- c(apply(!is.na(tmax), 2:3, sum))
write.csv(stations[years >= 15, ], "colorado.csv", row.names = FALSE, quote = FALSE)

grid <- expand.grid(month = c(1, 7), lon = CO.elevGrid$x, lat = CO.elevGrid$y)[, c("lon", "lat", "month")]
grid$elevation <- round(rep(c(CO.elevGrid$z), each = 2))
write.csv(grid, "map.csv", row.names = FALSE, quote = FALSE)
