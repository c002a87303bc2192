# %% [markdown]
# # Which tumours are malignant, and how sure are we?
#
# The data are two measurements of 569 tumours. A classifier is more useful if its probabilities are reliable: of the
# tumours with a predicted probability of 0.8 of being malignant, eight of ten should be malignant.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

import sparsegp.plot
from sparsegp import SparseGPClassifier

data = Path(__file__).resolve().parents[2] / "examples" / "data"
tumours = pd.read_csv(data / "breast_cancer.csv")
X, y = tumours.drop(columns="diagnosis"), tumours.diagnosis
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1, stratify=y)

# %% [markdown]
# `fit` accepts a frame and labels of any type. `auto="none"` keeps the defaults; without it, short fits choose the
# kernel.

# %%
model = SparseGPClassifier(n_inducing=30, auto="none", random_state=0).fit(X_train, y_train)
proba = model.predict_proba(X_test)
print(f"classes: {model.classes_.tolist()}")
print(f"accuracy: {accuracy_score(y_test, model.predict(X_test)):.3f}")
print(f"NLL: {log_loss(y_test, proba, labels=model.classes_):.3f}")
print(f"surest mistake: {proba.max(axis=1)[model.predict(X_test) != y_test].max():.2f}")

# %% [markdown]
# The left figure shows the regions of both classes, paler where the model is less certain. The middle figure shows the
# share of right predictions against the predicted probability. The right figure shows the relevance of each
# measurement: the rise of the NLL when its values are permuted.

# %%
_, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
sparsegp.plot.decision_regions(model, X_train, y_train, ax=axes[0])
sparsegp.plot.calibration(model, X_test, y_test, bins=5, ax=axes[1])
sparsegp.plot.relevance(model, X_test, y_test, ax=axes[2])
