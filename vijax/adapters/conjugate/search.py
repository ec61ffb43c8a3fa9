"""Finds unknowns that can be integrated out: those whose conditional density, given all others, has
one of the forms of `forms`, or is normal in blocks.

Slopes of the log density at a few points determine a form. It is right if it predicts the slopes at
random points, of all these unknowns together, at several values of the others. All of this is in
float64: what is not of the form by one part in a million is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.sparse import csgraph

from vijax.adapters.conjugate.forms import FORMS, NORMAL, Form
from vijax.adapters.conjugate.marginal import Blocks, Marginal, Plan, Single
from vijax.automatic.curvature.pattern import colour_columns
from vijax.contract.variables import Free, Variables
from vijax.xla.compiler import quick_jit
from vijax.xla.precision import enable_x64

Values = Mapping[str, Any]
FEWEST = 2  # entries of an unknown that is worth an integral
MOST_POINTS = 3  # values of the other unknowns at which a form is tried
FEWEST_POINTS = 2  # of these, where the density must be finite
TURNS = 3  # tries of the two points that determine a form, each about the mode before
SDS = 2.5  # standard deviations within which the random points are
SAME = 1e-6  # share of a slope by which a prediction may be wrong
COUPLED = 1e-9  # share of the diagonal from which on two normals depend on each other
MOST_NORMALS = 600  # normals that may depend on each other
MOST_BESIDE = 5000  # coordinates in all, where normals depend on each other
MOST_IN_BLOCK = 256  # normals of a block: its factor takes the cube of these
MOST_COLOURS = 64  # sets of slopes
AT_ONCE = 64  # points of one call


def find_plan(
    log_joint: Callable[[Values], Any],
    variables: Mapping[str, Free],
    levels: Sequence[Sequence[str]],
    parents: Callable[[Sequence[str]], bool],
    points: Sequence[Values],
) -> Plan | None:
    """The unknowns of a model that are integrated out; None if there are none.

    Args:
      log_joint: the log density of all values.
      variables: the unknowns by name.
      levels: names of those whose law depends on others, by depth.
      parents: True where some of these names have a law of another unknown that depends on them.
      points: values of all unknowns.
    """
    all_variables = Variables.from_tree(variables)
    names = [name for level in reversed(levels) for name in level]
    names = [name for name in names if variables[name].size >= FEWEST]
    if not names:
        return None
    try:
        with enable_x64(True):
            search = _Search(log_joint, all_variables, points)
            selection: list[str] = []
            fit: _Fit | None = None
            for name in names:
                trial = [*selection, name]
                trial_fit = None
                if not parents(trial):
                    trial_fit = search.fit(trial)
                if trial_fit is not None:
                    selection, fit = trial, trial_fit
            if fit is None:
                return None
            inner = Variables.from_tree({name: variables[name] for name in selection})
            plan = fit.plan(inner, search.order(inner))
            if not _has_slopes(Marginal(plan, log_joint), search.finite(points)):
                return None
            return plan
    except Exception:  # a density that has no gradient, or cannot be traced in float64
        return None


class _Entries(NamedTuple):
    """The forms of several coordinates."""

    forms: tuple[Form, ...]

    def parts(self) -> list[tuple[Form, Int[np.ndarray, " n"]]]:
        """Each form, and the places that have it."""
        distinct = dict.fromkeys(self.forms)
        return [
            (form, np.flatnonzero([entry == form for entry in self.forms])) for form in distinct
        ]

    def solve(self, z: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """a and b from slopes at two points, (2, m)."""
        a, b = np.zeros((2, len(self.forms)))
        for form, i in self.parts():
            a[i], b[i] = form.solve((z[0, i], z[1, i]), (slopes[0, i], slopes[1, i]))
        return a, b

    def are_proper(self, a: np.ndarray, b: np.ndarray) -> bool:
        """True where all integrals are finite."""
        return all(np.all(form.is_proper(a[i], b[i])) for form, i in self.parts())

    def middle(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Modes and standard deviations."""
        middle, width = np.zeros((2, len(self.forms)))
        for form, i in self.parts():
            middle[i], width[i] = form.middle(a[i], b[i])
        return middle, width

    def predicts(self, slopes: np.ndarray, z: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
        """True where slopes at z are those of the forms, up to a share of their terms."""
        for form, i in self.parts():
            t, u = (np.asarray(part) for part in form.basis(z[i]))
            terms = np.abs(a[i] * t) + np.abs(b[i] * u)
            if not _are_same(a[i] * t + b[i] * u, slopes[i], terms):
                return False
        return True


class _Law(NamedTuple):
    """The law of coordinates of one form each, given all others."""

    entries: _Entries
    a: Float[np.ndarray, " m"]
    b: Float[np.ndarray, " m"]
    middle: Float[np.ndarray, " m"]
    width: Float[np.ndarray, " m"]

    def draw(self, rng: np.random.Generator) -> Float[np.ndarray, " m"]:
        """A point within a few standard deviations of the mode."""
        return self.middle + self.width * rng.uniform(-SDS, SDS, len(self.middle))

    def predicts(self, slopes: np.ndarray, z: np.ndarray) -> bool:
        """True where slopes at z are those of the law."""
        return self.entries.predicts(slopes, z, self.a, self.b)


class _NormalLaw(NamedTuple):
    """The normal law of coordinates given all others."""

    mean: Float[np.ndarray, " m"]
    precision: Float[np.ndarray, "m m"]
    factor: Float[np.ndarray, "m m"]  # lower factor of the precision

    def draw(self, rng: np.random.Generator) -> Float[np.ndarray, " m"]:
        """A draw."""
        return self.mean + np.linalg.solve(self.factor.T, rng.normal(size=len(self.mean)))

    def predicts(self, slopes: np.ndarray, z: np.ndarray) -> bool:
        """True where slopes at z are those of the law."""
        shift = z - self.mean
        terms = np.abs(self.precision) @ np.abs(shift)
        return _are_same(-self.precision @ shift, slopes, terms)

    @property
    def width(self) -> Float[np.ndarray, " m"]:
        """Standard deviations given all others."""
        return 1 / np.sqrt(np.diag(self.precision))

    def pattern(self) -> Bool[np.ndarray, "m m"]:
        """The pairs of coordinates that depend on each other."""
        return np.abs(self.precision) * self.width * self.width[:, None] > COUPLED


class _Fit(NamedTuple):
    """The conditional of some coordinates.

    Attributes:
      rows: the coordinates.
      forms: the form of each; normals may depend on each other.
      middle: a point near the mode, and the widths there.
      is_coupled: pairs of normals that depend on each other, or a coordinate and itself.
    """

    rows: Int[np.ndarray, " m"]
    forms: tuple[Form, ...]
    middle: Float[np.ndarray, " m"]
    width: Float[np.ndarray, " m"]
    is_coupled: Bool[np.ndarray, "m m"] | None  # None where no two depend on each other

    def plan(self, variables: Variables, order: Int[np.ndarray, " m"]) -> Plan:
        """The plan, with coordinates in the order of `variables`."""
        sources = np.argsort(self.rows)[np.searchsorted(np.sort(self.rows), order)]
        in_block = np.zeros(len(order), bool)
        colour = np.zeros(len(order), int)
        blocks: list[Blocks] = []
        if self.is_coupled is not None:
            is_coupled = self.is_coupled[np.ix_(sources, sources)]
            in_block = is_coupled.sum(1) > 1
            part = is_coupled[np.ix_(in_block, in_block)]
            colour[in_block] = colour_columns(sparse.csr_array(part))
            blocks = _blocks(is_coupled, in_block, colour)
        entries = _Entries(tuple(self.forms[i] for i in sources))
        singles = [Single(form, i[~in_block[i]]) for form, i in entries.parts()]
        return Plan(
            variables,
            tuple(single for single in singles if len(single.rows)),
            tuple(blocks),
            self.middle[sources],
            self.width[sources],
            colour == np.arange(colour.max() + 1)[:, None],
        )

    def is_small(self) -> bool:
        """True where blocks are not too large, nor sets of slopes too many."""
        if self.is_coupled is None:
            return True
        _, component = csgraph.connected_components(sparse.csr_array(self.is_coupled))
        colour = colour_columns(sparse.csr_array(self.is_coupled))
        return bool(np.bincount(component).max() <= MOST_IN_BLOCK and colour.max() < MOST_COLOURS)


def _has_slopes(marginal: Marginal, points: Sequence[Values]) -> bool:
    """True where the marginal density has a gradient, which takes second derivatives of the joint
    density: a branch of that may have none."""
    names = marginal.plan.names
    remaining = [{name: x for name, x in point.items() if name not in names} for point in points]
    stacked = jax.tree.map(lambda *x: np.stack([np.asarray(part, float) for part in x]), *remaining)
    slopes = quick_jit(jax.vmap(jax.grad(marginal)))(stacked)
    return all(np.isfinite(x).all() for x in jax.tree.leaves(slopes))


def _blocks(is_coupled: np.ndarray, in_block: np.ndarray, colour: np.ndarray) -> list[Blocks]:
    """The blocks of coordinates that depend on each other, those of like size together."""
    count = len(is_coupled)
    _, component = csgraph.connected_components(sparse.csr_array(is_coupled))
    members = [np.flatnonzero(component == c) for c in np.unique(component[in_block])]
    by_size: dict[int, list[np.ndarray]] = {}
    for member in members:
        by_size.setdefault(int(np.ceil(np.log2(len(member)))), []).append(member)
    blocks = []
    for group in by_size.values():
        size = max(map(len, group))
        rows = np.stack([np.pad(x, (0, size - len(x)), constant_values=count) for x in group])
        padded = np.pad(is_coupled, ((0, 1), (0, 1)))
        mask = padded[rows[:, :, None], rows[:, None, :]]
        blocks.append(Blocks(rows, mask, np.append(colour, 0)[rows]))
    return blocks


class _Search:
    """A log density of free coordinates in float64, at several values of the unknowns."""

    def __init__(
        self, log_joint: Callable[[Values], Any], variables: Variables, points: Sequence[Values]
    ):
        def log_density(x: Any) -> Any:
            values, log_det = variables.values(x)
            return log_joint(values) + log_det

        self._variables = variables
        self._program = quick_jit(jax.vmap(jax.grad(log_density)))
        x = np.stack([np.asarray(variables.coordinates(values), float) for values in points])
        self._is_finite = np.isfinite(self._slopes(x)).all(1)
        self._points = x[self._is_finite][:MOST_POINTS]
        self._rng = np.random.default_rng(0)
        self._forms: dict[str, Form | None] = {}

    def _slopes(self, x: np.ndarray) -> np.ndarray:
        parts = []
        for start in range(0, len(x), AT_ONCE):
            chunk = x[start : start + AT_ONCE]
            full = np.concatenate([chunk, np.repeat(chunk[:1], AT_ONCE - len(chunk), 0)])
            parts.append(np.asarray(self._program(full), np.float64)[: len(chunk)])
        return np.concatenate(parts)

    def finite(self, points: Sequence[Values]) -> list[Values]:
        """Those of the points where the density has a gradient."""
        return [point for point, has in zip(points, self._is_finite, strict=True) if has]

    def order(self, inner: Variables) -> Int[np.ndarray, " m"]:
        """The coordinates of these variables among all, in the order of `inner`."""
        order = np.zeros(inner.dim, int)
        for name, places in inner.places.items():
            order[places] = self._variables.places[name]
        return order

    def fit(self, names: Sequence[str]) -> _Fit | None:
        """The conditional of these unknowns; None if it has no known form."""
        if len(self._points) < FEWEST_POINTS:
            return None
        rows, forms = [], []
        for name in names:
            places = self._variables.places[name]
            rows += places
            forms += [self._form(name)] * len(places)
        entries = tuple(form or NORMAL for form in forms)
        fit = None
        if None not in forms:
            fit = self._fit_singles(np.array(rows), entries)
        return fit or self._fit_normals(np.array(rows), entries)

    def _form(self, name: str) -> Form | None:
        """The form of all entries of an unknown, if they do not depend on each other; else None."""
        if name not in self._forms:
            rows = np.asarray(self._variables.places[name])
            fits = (form for form in FORMS if self._fit_singles(rows, (form,) * len(rows)))
            self._forms[name] = next(fits, None)
        return self._forms[name]

    def _fit_singles(self, rows: np.ndarray, forms: tuple[Form, ...]) -> _Fit | None:
        """Coordinates that do not depend on each other."""
        law = None
        for x in self._points:
            law = self._law(x, rows, forms)
            if law is None:
                return None
            z = law.draw(self._rng)
            slopes = self._slopes(_replace(x, rows, z)[None])[0, rows]
            if not law.predicts(slopes, z):
                return None
        assert law is not None
        return _Fit(rows, forms, law.middle, law.width, None)

    def _law(self, x: np.ndarray, rows: np.ndarray, forms: tuple[Form, ...]) -> _Law | None:
        """The law of coordinates given the others of x; None where a form has no integral."""
        entries = _Entries(forms)
        middle, width = x[rows], np.ones(len(rows))
        law = None
        for _ in range(TURNS):
            ends = np.stack([middle - 0.5 * width, middle + 0.5 * width])
            slopes = self._slopes(np.stack([_replace(x, rows, z) for z in ends]))[:, rows]
            a, b = entries.solve(ends, slopes)
            if not entries.are_proper(a, b):
                return None
            middle, width = entries.middle(a, b)
            if not (np.isfinite(middle) & np.isfinite(width)).all():
                return None
            law = _Law(entries, a, b, middle, width)
        return law

    def _fit_normals(self, rows: np.ndarray, forms: tuple[Form, ...]) -> _Fit | None:
        """Coordinates of which the normal ones may depend on each other."""
        is_normal = np.array([form == NORMAL for form in forms])
        normal, single = rows[is_normal], rows[~is_normal]
        if not 0 < len(normal) <= MOST_NORMALS or len(rows) > MOST_BESIDE:
            return None
        single_forms = tuple(form for form in forms if form != NORMAL)
        is_coupled = np.eye(len(rows), dtype=bool)
        middle, width = np.zeros(len(rows)), np.ones(len(rows))
        for x in self._points:
            law = self._law(x, single, single_forms)
            normal_law = self._normal_law(x, normal)
            if law is None or normal_law is None:
                return None
            z, z_normal = law.draw(self._rng), normal_law.draw(self._rng)
            trial = _replace(_replace(x, normal, z_normal), single, z)
            slopes = self._slopes(trial[None])[0]
            is_right = law.predicts(slopes[single], z)
            if not (is_right and normal_law.predicts(slopes[normal], z_normal)):
                return None
            middle[is_normal], width[is_normal] = normal_law.mean, normal_law.width
            middle[~is_normal], width[~is_normal] = law.middle, law.width
            is_coupled[np.ix_(is_normal, is_normal)] |= normal_law.pattern()
        fit = _Fit(rows, forms, middle, width, is_coupled)
        if not fit.is_small():
            return None
        return fit

    def _normal_law(self, x: np.ndarray, rows: np.ndarray) -> _NormalLaw | None:
        """The normal law of coordinates given the others of x; None where there is none."""
        start = x[rows]
        points = np.concatenate([start[None], start + np.eye(len(rows))])
        slopes = self._slopes(np.stack([_replace(x, rows, z) for z in points]))[:, rows]
        precision = slopes[0] - slopes[1:]
        precision = 0.5 * (precision + precision.T)
        try:
            factor = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:  # of infinite slopes, too
            return None
        return _NormalLaw(start + np.linalg.solve(precision, slopes[0]), precision, factor)


def _replace(x: np.ndarray, rows: np.ndarray, z: np.ndarray) -> Float[np.ndarray, " D"]:
    """The coordinates x with these rows replaced."""
    x = x.copy()
    x[rows] = z
    return x


def _are_same(predictions: np.ndarray, slopes: np.ndarray, terms: np.ndarray) -> bool:
    """True where slopes are as predicted, up to a share of their terms."""
    return bool((np.abs(predictions - slopes) <= SAME * terms).all())
