"""Draws the maps of climate stations in docs/places.md from the predictions: colorado.py STATIONS PREDICTIONS PICTURE."""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image

PANELS = [
    ("elevation", 1, "Elevation, m", "gist_earth"),
    ("latent_mean", 1, "Daily maximum in January, °C", "RdYlBu_r"),
    ("latent_mean", 7, "Daily maximum in July, °C", "RdYlBu_r"),
    ("sd", 7, "Standard deviation of the mean in July, °C", "viridis"),
]


def main(stations, predictions, picture):
    places = pd.read_csv(stations).drop_duplicates("station")
    points = pd.read_csv(predictions)
    points["sd"] = np.sqrt(points["latent_variance"])
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 6.4), layout="constrained")
    for axis, (column, month, title, colours) in zip(axes.flat, PANELS):
        values = points[points["month"] == month].pivot(index="lat", columns="lon", values=column)
        low, high = np.percentile(values, [0.5, 99.5])
        mesh = axis.pcolormesh(values.columns, values.index, values, cmap=colours, vmin=low, vmax=high, shading="nearest")
        # The border of the state.
        axis.plot([-109.05, -102.05, -102.05, -109.05, -109.05], [37, 37, 41, 41, 37], color="black", linewidth=0.8)
        axis.plot(places["lon"], places["lat"], ".", color="black", markersize=2.2)
        axis.set(xlim=(values.columns.min(), values.columns.max()), ylim=(values.index.min(), values.index.max()))
        axis.set_aspect(1 / np.cos(np.radians(39)))
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8)
        figure.colorbar(mesh, ax=axis, shrink=0.8).ax.tick_params(labelsize=8)
    figure.savefig(picture, dpi=100)
    # 256 colours make the file a third as large.
    Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
