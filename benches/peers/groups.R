# Fits a mixed model by lme4 and predicts test rows: Rscript groups.R TRAIN TEST FAMILY FORMULA OUT, called by groups.py.
# OUT.csv has the mean and the variance of every test row, on the scale of the link for binomial data; OUT.txt has names and values.

suppressPackageStartupMessages(library(lme4))
arguments <- commandArgs(trailingOnly = TRUE)
train <- read.csv(arguments[1], stringsAsFactors = FALSE)
test <- read.csv(arguments[2], stringsAsFactors = FALSE)
gaussian <- arguments[3] == "gaussian"
formula <- as.formula(arguments[4])

seconds <- function(work) {
  before <- proc.time()
  value <- work()
  after <- proc.time()
  list(value = value, cpu = sum((after - before)[1:2]), wall = (after - before)[[3]])
}

fitted <- seconds(function() {
  if (gaussian) lmer(formula, train, REML = FALSE) else glmer(formula, train, family = binomial)
})
model <- fitted$value
components <- as.data.frame(VarCorr(model))

predicted <- seconds(function() {
  mean <- predict(model, test, re.form = NULL, allow.new.levels = TRUE, type = "link")
  # Effects of known levels count as known; those of new levels have the variance of the grouping.
  variance <- rep(if (gaussian) sigma(model)^2 else 0, nrow(test))
  for (row in which(components$grp != "Residual")) {
    column <- sub("\\.[0-9]+$", "", components$grp[row])
    slope <- components$var1[row]
    new <- !(test[[column]] %in% train[[column]])
    factor <- if (slope == "(Intercept)") 1 else test[[slope]]
    variance <- variance + new * factor^2 * components$vcov[row]
  }
  data.frame(mean = mean, variance = variance)
})

write.csv(predicted$value, paste0(arguments[5], ".csv"), row.names = FALSE)
facts <- c(
  log_likelihood = as.numeric(logLik(model)),
  fit_cpu = fitted$cpu, fit_wall = fitted$wall, predict_cpu = predicted$cpu, predict_wall = predicted$wall
)
sds <- ifelse(is.na(components$sdcor), 0, components$sdcor)
names(sds) <- paste("sd", components$grp, sep = "_")
facts <- c(facts, sds)
writeLines(sprintf("%s %.10g", names(facts), facts), paste0(arguments[5], ".txt"))
