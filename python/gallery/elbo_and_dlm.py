# %% [markdown]
# # The evidence lower bound or the predictive loss itself?
#
# The ELBO trains a model to explain the data. Direct loss minimisation (DLM) trains it to predict: its objective is the
# log loss of the predictive distribution. If the model does not suit the data, DLM predicts better; if it does, both
# agree.
#
# Numbers of visits to a doctor vary far more than Poisson counts, so a Poisson model does not suit them.

# %%
from pathlib import Path

import pandas as pd

from sparsegp import compare

data = Path(__file__).resolve().parents[2] / "examples" / "data"
visits = pd.read_csv(data / "doctor_visits.csv").head(1200)
X, y = visits.drop(columns="visits"), visits.visits

# %% [markdown]
# `compare` fits all objectives to the same training rows and scores them on the same held-out rows, here for two
# splits.

# %%
settings = {"repeats": 2, "options": {"inducing": 25, "epochs": 40}, "random_state": 0}
poisson = compare(X, y, ["elbo", "dlm-log"], likelihood="poisson", **settings)
print(poisson.frame[["objective", "nll_mean", "nll_se"]].to_string(index=False))

# %% [markdown]
# The negative binomial distribution has a parameter for this overdispersion. With this likelihood, the ELBO does nearly
# as well.

# %%
negative_binomial = compare(X, y, ["elbo", "dlm-log"], likelihood="negative-binomial", **settings)
print(negative_binomial.frame[["objective", "nll_mean", "nll_se"]].to_string(index=False))

# %%
ax = poisson.plot("nll")
ax.set_title("Poisson")
