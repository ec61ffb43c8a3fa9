"""Fits of many responses, as `vijax.glmm.many` returns them: tables of one coefficient over all
responses, the verdict on each, files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from vijax.automatic.many.across import Across, across, list_rates
from vijax.automatic.many.weighted_draws import Estimates
from vijax.checks import require
from vijax.data.reading.checks import listed
from vijax.files import write_arrays
from vijax.numerals import format_number, name_ends
from vijax.verdict import limits

MOST_ROWS = 20
"""Rows of a printed table."""
FEWEST = 100.0
"""Effective draws that a fit needs."""
FORMAT = "vijax many 4"
OF_RESPONSES = Estimates._fields
OF_ROWS = ("weights", "precisions")
"""Arrays of fits, by response."""
TEXTS = ("responses", "names", "coefficients", "obstacles")
"""Texts of fits."""
SETTINGS = (
    "formula",
    "family",
    "quantile",
    "priors",
    "nodes",
    "left_out",
    "marks",
    "precision_column",
)
"""Other fields that a file has."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SignTable:
    """One coefficient over all responses; it prints as a table, the surest signs first.

    Attributes:
      name: the coefficient.
      responses: names of the responses.
      mean: posterior means, each by its own rows alone.
      sd: posterior standard deviations.
      low: lower ends of the central intervals.
      high: upper ends of the central intervals.
      tail: the posterior probability that the sign is not that of the mean, without regard to the
        other responses.
      shared: the coefficients under the law that all responses have in common.
      listed: the false sign rate of the list that ends with this response.
      usable: False for responses whose own fit failed.
      level: probability of the intervals.
    """

    name: str
    responses: tuple[str, ...]
    mean: Float[np.ndarray, " R"]
    sd: Float[np.ndarray, " R"]
    low: Float[np.ndarray, " R"]
    high: Float[np.ndarray, " R"]
    tail: Float[np.ndarray, " R"]
    shared: Across
    listed: Float[np.ndarray, " R"]
    usable: np.ndarray
    level: float

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def order(self) -> np.ndarray:
        """Places of the responses, the surest signs first; those without a fit come last."""
        return np.lexsort((self.tail, self.shared.false_sign))

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the table by name, the surest signs first."""
        low, high = name_ends(self.level)
        columns = {
            "response": np.array(self.responses, object),
            "mean": self.mean,
            "sd": self.sd,
            low: self.low,
            high: self.high,
            "tail": self.tail,
            "shrunk mean": self.shared.mean,
            "shrunk sd": self.shared.sd,
            "false sign": self.shared.false_sign,
            "of list": self.listed,
            "usable": self.usable,
        }
        return {name: values[self.order] for name, values in columns.items()}

    def to_frame(self) -> Any:
        """Returns a `pandas.DataFrame`; ImportError without pandas."""
        from vijax.extras import require_extra

        return require_extra("pandas").DataFrame(self.columns())

    def sure_signs(self, rate: float) -> list[str]:
        """The longest list of responses whose signs are wrong at this rate at most, surest first.

        Args:
          rate: the expected share of wrong signs (of zeros too), as 0.05.
        """
        require(0 < rate < 1, "rate", "a probability between 0 and 1", rate)
        return [self.responses[i] for i in self.order if self.listed[i] <= rate]

    def __repr__(self) -> str:
        columns = self.columns()
        header = [name for name in columns if name != "usable"]
        rows = [header]
        for i in range(min(len(self), MOST_ROWS)):
            rows.append([self._cell(name, columns, i) for name in header])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            numbers = map(str.rjust, row[1:], widths[1:])
            lines.append("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())
        if len(self) > MOST_ROWS:
            lines.append(f"... and {len(self) - MOST_ROWS:,} more: to_frame() has all of them")
        return "\n".join([*lines, *self.sentences()])

    def _cell(self, name: str, columns: dict[str, np.ndarray], i: int) -> str:
        value = columns[name][i]
        if name == "response":
            return f"{value}{('', ' (!)')[not columns['usable'][i]]}"
        if not np.isfinite(value):
            return "-"
        if name in ("tail", "false sign", "of list"):
            return f"{value:.2g}"
        return format_number(float(value), float(columns["sd"][i]))

    def sentences(self) -> list[str]:
        """The table in words."""
        number = len(self.sure_signs(0.05))
        law = self.shared
        widest = float(np.sqrt(law.shares @ law.spreads**2 / max(law.shares.sum(), 1e-300)))
        return [
            f"{self.name}, {len(self):,} responses. `tail`: the probability of the other sign by "
            "the rows of the response alone. `shrunk`, `false sign`: with the law that all "
            f"responses share, {100 * law.zeros:.0f} % zeros and normals of sd "
            f"{format_number(widest)}. `of list`: the expected share of wrong signs down to this "
            "row.",
            f"At an expected share of 5 %: {number:,} responses.",
        ]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ManyFits:
    """Fits of many responses to one design.

    Attributes:
      formula: the formula, without a response.
      family: the law of the responses.
      responses: names of the responses.
      names: names of the unknowns.
      coefficients: names of the unknowns that are coefficients.
      mean: posterior means, (R, K); NaN for responses that were not fitted.
      sd: posterior standard deviations, (R, K).
      low: lower ends of the central intervals, (R, K).
      high: upper ends of the central intervals, (R, K).
      below: posterior probabilities of less than zero, (R, K).
      above: posterior probabilities of more than zero, (R, K).
      covariance: covariances of the unknowns, (R, K, K).
      khat: shapes of the tails of the importance weights, (R,).
      effective: effective numbers of draws, (R,).
      obstacles: why a response was not fitted, (R,); "" where it was.
      level: probability of the intervals.
      weights: weights of the rows of training, (N,).
      precisions: precisions of these rows; none, (0,), without them.
      precision_column: their column; None for an array, or without them.
      integrals: a sentence on what is approximate in the integrals over groups; "" if nothing is.
      make_model: the name of a response -> its model; None for fits of a file.
      read_columns: rows -> the columns of coefficients and offsets; None for fits of a file without
        their table.
      quantile: the quantile of a quantile regression; None for other laws.
      priors: the user's priors.
      nodes: the user's nodes of the quadrature.
      left_out: a sentence on rows that lacked a cell of the formula; "" if there were none. Their
        weights are zero.
      marks: marks of the columns of the formula and of the responses, by which
        `vijax.glmm.many.load` knows them.
    """

    formula: str
    family: str
    responses: tuple[str, ...]
    names: tuple[str, ...]
    coefficients: tuple[str, ...]
    mean: Float[np.ndarray, "R K"]
    sd: Float[np.ndarray, "R K"]
    low: Float[np.ndarray, "R K"]
    high: Float[np.ndarray, "R K"]
    below: Float[np.ndarray, "R K"]
    above: Float[np.ndarray, "R K"]
    covariance: Float[np.ndarray, "R K K"]
    khat: Float[np.ndarray, " R"]
    effective: Float[np.ndarray, " R"]
    obstacles: tuple[str, ...]
    level: float
    weights: Float[np.ndarray, " N"]
    integrals: str = ""
    make_model: Callable[[str], Any] | None = None
    read_columns: Callable[[Any], tuple[np.ndarray, np.ndarray]] | None = None
    quantile: float | None = None
    priors: Mapping[str, Sequence[Any]] | Literal["flat"] | None = None
    nodes: int | None = None
    left_out: str = ""
    marks: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    precisions: Float[np.ndarray, " N"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    precision_column: str | None = None

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def usable(self) -> np.ndarray:
        """True for the responses whose estimates can be used, (R,)."""
        was_fitted = np.array([not obstacle for obstacle in self.obstacles], bool)
        is_sure = (self.khat <= limits.KHAT_RELIABLE) & (self.effective >= FEWEST)
        return was_fitted & is_sure

    @property
    def verdict(self) -> str:
        """The verdict on the fits, in plain words."""
        usable = self.usable
        left_out = [name for name, text in zip(self.responses, self.obstacles, strict=True) if text]
        failed = [
            name
            for name, is_usable, text in zip(self.responses, usable, self.obstacles, strict=True)
            if not is_usable and not text
        ]
        lines = [
            f"{int(usable.sum()):,} of {len(self):,} fits can be used: importance weights are "
            f"reliable (k-hat up to {limits.KHAT_RELIABLE})."
        ]
        if failed:
            lines.append(
                f"Not so for {listed(failed)}: fit each alone, "
                f"vijax.auto(fits.model({failed[0]!r}), key=key)."
            )
        if left_out:
            text = next(text for text in self.obstacles if text)
            lines.append(f"Not fitted: {listed(left_out)} ({left_out[0]}: {text})")
        lines.append("Each was searched from one start: other modes were not looked for.")
        lines += filter(None, (self.integrals, self.left_out))
        return " ".join(lines)

    def response_verdict(self, response: str) -> str:
        """The verdict on the fit of one response."""
        i = self._place(response)
        if self.obstacles[i]:
            return f"Not fitted: {self.obstacles[i]}"
        words = ("do not use it", "can be used")[int(self.usable[i])]
        return f"k-hat {self.khat[i]:.2f}, {self.effective[i]:.0f} effective draws: {words}."

    def table(self, name: str) -> SignTable:
        """A coefficient over all responses, with rates of false signs.

        Args:
          name: the coefficient, one of `coefficients`.
        """
        names = list(self.coefficients)
        require(name in names, "name", f"a coefficient, one of {names}", repr(name))
        k = self.names.index(name)
        mean, sd = self.mean[:, k], self.sd[:, k].copy()
        usable = self.usable
        tail = np.minimum(self.below[:, k], self.above[:, k])
        error = np.where(usable, self._errors(mean, sd, tail), np.nan)
        shared = across(mean, error)
        listed = list_rates(shared.false_sign)
        return SignTable(
            name=name,
            responses=self.responses,
            mean=mean,
            sd=self.sd[:, k],
            low=self.low[:, k],
            high=self.high[:, k],
            tail=tail,
            shared=shared,
            listed=listed,
            usable=usable,
            level=self.level,
        )

    def _errors(self, mean: np.ndarray, sd: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """Standard errors for which a normal has the same tail beyond zero: of few rows tails are
        heavier than those of a normal with the same sd."""
        from scipy import stats

        with np.errstate(divide="ignore", invalid="ignore"):
            distance = -stats.norm.ppf(tail)
            error = np.abs(mean) / distance
        is_far = np.isfinite(error) & (distance > 0.5)
        return np.where(is_far, np.maximum(error, sd), sd)

    def columns(self) -> dict[str, np.ndarray]:
        """All unknowns of all responses, a row for each pair."""
        low, high = name_ends(self.level)
        number = len(self.names)
        columns = {
            "response": np.repeat(np.array(self.responses, object), number),
            "unknown": np.tile(np.array(self.names, object), len(self)),
            "mean": self.mean.ravel(),
            "sd": self.sd.ravel(),
            low: self.low.ravel(),
            high: self.high.ravel(),
            "P(> 0)": self.above.ravel(),
            "k-hat": np.repeat(self.khat, number),
            "usable": np.repeat(self.usable, number),
        }
        return columns

    def to_frame(self) -> Any:
        """All unknowns of all responses as a `pandas.DataFrame`; ImportError without pandas."""
        from vijax.extras import require_extra

        return require_extra("pandas").DataFrame(self.columns())

    def predictors(self, table: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds of the predictors of rows, on the scale of the link, (R, N) each; effects
        of groups are zero.

        Args:
          table: rows with the columns of the formula.
        """
        remedy = "vijax.glmm.many.load(path, table) of the table of training has them."
        expected = "fits with their table"
        require(self.read_columns is not None, "table", expected, "fits without it", remedy)
        assert self.read_columns is not None
        x, offset = self.read_columns(table)
        places = [self.names.index(name) for name in self.coefficients]
        mean = self.mean[:, places] @ x.T + offset
        covariance = self.covariance[:, places][:, :, places]
        variance = np.einsum("np,rpq,nq->rn", x, covariance, x, optimize=True)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def model(self, response: str) -> Any:
        """The `vijax.glmm` of one response, for a fit of its own. Its design is that of all: knots,
        means of `scale(x)` and levels are those of all rows."""
        self._place(response)
        expected = "fits with their table and responses"
        remedy = "vijax.glmm.many.load(path, table, responses) of those of training has them."
        require(self.make_model is not None, "response", expected, "fits without them", remedy)
        assert self.make_model is not None
        return self.make_model(response)

    def _place(self, response: str) -> int:
        has = response in self.responses
        actual = f"{response!r} among {len(self):,}"
        require(has, "response", "the name of a response", actual)
        return self.responses.index(response)

    def save(self, path: str | Path) -> None:
        """Writes the fits to a file .npz, which `vijax.glmm.many.load` reads."""
        about = {"format": FORMAT, "level": self.level, "integrals": self.integrals}
        about |= {name: getattr(self, name) for name in SETTINGS}
        texts = {name: np.array(getattr(self, name), str) for name in TEXTS}
        arrays = {name: getattr(self, name) for name in (*OF_RESPONSES, *OF_ROWS)}
        path = Path(path)
        require(path.suffix == ".npz", "path", "a name that ends with .npz", str(path))
        write_arrays(path, {"about": np.array(json.dumps(about, default=int)), **texts, **arrays})

    def __repr__(self) -> str:
        law = f"{len(self):,} responses, {self.formula}, {self.family}"
        if self.quantile is not None:
            law += f" (the {self.quantile:g} quantile)"
        return f"{law}\nunknowns: {', '.join(self.names)}\n{self.verdict}"
