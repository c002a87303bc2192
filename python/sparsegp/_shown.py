"""The display of fitted estimators: grouped effects as frames, and the summary of the fit in notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

#: The ends of an unknown interval.
_UNKNOWN = (float("nan"), float("nan"))


class Shown(BaseEstimator):
    """The part of an estimator that shows its fit."""

    if TYPE_CHECKING:
        _model: Any
        n_threads: int | None

        @property
        def document_(self) -> dict[str, Any]: ...

        def _fitted(self) -> Any: ...

    @property
    def effects_(self) -> Any:
        """The estimates of grouped effects: a frame of pandas with the columns group, level, effect, estimate and sd."""
        import pandas as pd

        names = ("group", "level", "effect", "estimate", "sd")
        return pd.DataFrame(self._fitted().effects(), columns=names)

    @property
    def variance_components_(self) -> Any:
        """The standard deviations of grouped effects, and of the noise if it is Gaussian (group ``noise``): a frame of pandas with the columns
        group, effect, sd, lower and upper, the ends of the 95 % interval. Unknown ends are NaN. Correlations and intraclass correlations are in
        ``document_["groups"]``."""
        import pandas as pd

        groups = self.document_.get("groups") or {"components": [], "residual_sd": None}
        rows = [(one["group"], one["effect"], one["sd"], *(one["interval"] or _UNKNOWN)) for one in groups["components"]]
        if groups["residual_sd"] is not None:
            rows.append(("noise", "", groups["residual_sd"], *(groups["residual_interval"] or _UNKNOWN)))
        return pd.DataFrame(rows, columns=["group", "effect", "sd", "lower", "upper"])

    def _repr_html_inner(self):
        return super()._repr_html_inner() + self._glance()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._glance()
        return bundle

    def _glance(self):
        """Returns the summary and figures of the fit for notebooks: HTML in a separate frame, whose styles do not affect
        the page."""
        if "_model" not in self.__dict__:
            return ""
        page = html.escape(self._model.glance(f"{self!r}.fit(X, y)", threads=self.n_threads))
        style = "width: 100%; height: 32rem; border: 1px solid #8884; border-radius: 0.4rem"
        return f'<iframe title="Summary of the fit" srcdoc="{page}" style="{style}" loading="lazy"></iframe>'
