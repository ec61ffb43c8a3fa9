"""Discrete unknowns of a NumPyro model: Funsor sums them out (Obermeyer et al. 2019), and slopes of
the sum are their posterior probabilities.

Each discrete site takes all its values at once, along an axis of its own to the left of all plates.
A model that indexes by position (`z[group]`) would read this axis in place of its rows, and JAX
says nothing. So the sum is compared with the model's own density: a penalty on all values of the
discrete sites but one leaves the density at this one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.adapters.numpyro_data import base_law, wrapped_laws
from vijax.adapters.numpyro_handlers import (
    Axes,
    BackwardsError,
    require_funsor,
    with_axes,
    with_weights,
)
from vijax.adapters.numpyro_sites import Sites, discrete, is_in_scan, latent
from vijax.checks import check_key, require
from vijax.contract.variables import Z
from vijax.extras import require_extra
from vijax.families import Categorical
from vijax.predict.predictive import draw_coordinates
from vijax.xla.compiler import cached_program, quick_jit
from vijax.xla.precision import enable_x64

Values = Mapping[str, Any]
Weights = Mapping[str, Any]
"""Log weights of the values of each discrete site, which lie along the last axis."""
MOST_VALUES = 1000
"""Values of a discrete site that are summed over."""
PENALTY = 200.0
"""Nats that all values lose but the one that is compared. With many more, Funsor's products of
exponentials would be zero."""
POSSIBLE = 1e-20
"""Values of a smaller probability are not compared: the penalty does not outweigh the data."""
MOST_NAMES = 6
"""Names of sites that a message has."""
NUM_RANDOM = 4
"""Random sets of values that show what depends on discrete sites."""
NUM_DRAWS = 256
"""Draws of q over which probabilities are averaged."""
SURE = 1e-6
"""Largest probability of all other values where a sum is compared."""
SUM = "a sum over their values"
BY_ROWS = (
    "A discrete site has all its values at once, along an axis to the left of all plates. Put rows "
    "into numpyro.plate, without .expand; index by values (weights[z]), not values by rows "
    "(z[group]): give groups a plate, and their rows an axis of events. Or sum the site out by "
    "hand, with numpyro.factor."
)
SAME = 1e-5
"""Log densities are the same up to this share of their size, and of one nat."""
SAME_IN_FLOAT32 = 2e-3
"""The same in float32."""
BY_HAND = "Sum it out by hand, and add the result by numpyro.factor."


class Enumeration(NamedTuple):
    """A model with discrete unknowns.

    Attributes:
      model: the model with its arguments.
      sites: its sites in a run.
      supports: the values of each discrete site.
      axes: axes of batches that no plate declares.
    """

    model: Callable[[], Any]
    sites: Sites
    supports: dict[str, np.ndarray]
    axes: Axes

    @classmethod
    def from_sites(cls, model: Callable[[], Any], sites: Sites) -> Enumeration:
        """From a run. ValueError naming a site that keeps discrete ones from being summed out;
        ImportError without funsor."""
        names = discrete(sites)
        require_funsor(f"model: discrete sites {shorten(names)} are summed out by funsor")
        supports = {name: _read_support(name, sites[name]["fn"]) for name in names}
        for name in names:
            _check_scale(name, sites[name])
        for name, support in supports.items():
            _check_values_of_steps(name, sites[name], support)
        events = _event_axes(sites)
        axes = Axes(_plates_of_axes(sites, events), events)
        enumeration = cls(model, sites, supports, axes)
        for name, site in sites.items():
            if site["type"] == "sample" and name not in events:
                enumeration._check_plates(name, site)
        return enumeration

    @property
    def sample_names(self) -> list[str]:
        """Names of the continuous unknowns."""
        return [name for name in latent(self.sites) if name not in self.supports]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the log weights."""
        return {
            name: (*np.shape(self.sites[name]["value"]), len(support))
            for name, support in self.supports.items()
        }

    def log_density(self, values: Values, weights: Weights | None = None) -> Any:
        """The log density of the continuous unknowns: the logarithm of the sum over all values of
        the discrete ones, each with its log weights."""
        funsor = require_funsor()
        in_plates = with_axes(self.model, self.axes)
        enumerated = funsor.enum(funsor.config_enumerate(in_plates), self._first_axis())
        has_steps = any(is_in_scan(self.sites[name]) for name in self.supports)
        enumerated = with_weights(enumerated, self.supports, has_steps, weights)
        return jnp.asarray(funsor.log_density(enumerated, (), {}, dict(values))[0], float)

    def log_joint(self, values: Values, discrete_values: Values) -> Any:
        """The model's own log density."""
        log_density = require_extra("numpyro.infer.util", "numpyro").log_density
        return log_density(self.model, (), {}, {**values, **discrete_values})[0]

    def density_and_probabilities(self, values: Values) -> tuple[Any, dict[str, Any]]:
        """The log density, and the probabilities of the values of each discrete site given the
        continuous unknowns and the data: slopes in the log weights."""
        zeros = {name: jnp.zeros(shape) for name, shape in self.shapes.items()}
        log_density, slopes = jax.value_and_grad(self.log_density, argnums=1)(values, zeros)
        # They sum to one but for rounding, which is divided out.
        sums = {name: jnp.sum(slope, -1, keepdims=True) for name, slope in slopes.items()}
        return log_density, {name: slope / sums[name] for name, slope in slopes.items()}

    def probabilities(self, values: Values) -> dict[str, Any]:
        """The probabilities of `density_and_probabilities`."""
        return self.density_and_probabilities(values)[1]

    def condition(self, places: Mapping[str, np.ndarray] | None = None) -> Callable[[], Any]:
        """The model with discrete sites observed, at the values with these numbers; by default at
        those of the run."""
        values = {name: self.sites[name]["value"] for name in self.supports}
        if places is not None:
            values = self.choose_values(places)
        return require_extra("numpyro.handlers", "numpyro").condition(self.model, values)

    def choose_values(self, places: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Values of the discrete sites from their numbers in the supports."""
        return {name: jnp.asarray(support)[places[name]] for name, support in self.supports.items()}

    def random_places(self, seed: int) -> dict[str, np.ndarray]:
        """Random numbers of values, for each discrete site."""
        rng = np.random.default_rng(seed)
        return {
            name: rng.integers(shape[-1], size=shape[:-1]) for name, shape in self.shapes.items()
        }

    def trials(self) -> list[dict[str, np.ndarray]]:
        """Numbers of values that show what depends on discrete sites: all the first, all the last,
        and random ones."""
        first = {name: np.zeros(shape[:-1], int) for name, shape in self.shapes.items()}
        last = {name: np.full(shape[:-1], shape[-1] - 1) for name, shape in self.shapes.items()}
        return [first, last, *map(self.random_places, range(NUM_RANDOM))]

    def check(self, values: Values) -> None:
        """Raises ValueError if the sum is not one of the model's own densities: at the most
        probable values of the discrete sites, and at random ones. Warns where no value can be
        compared."""
        argument = f"model: discrete sites {shorten(list(self.supports))}"
        x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        try:
            with enable_x64(True):
                comparisons = self._compare(values)
            tolerance = SAME
        except BackwardsError:
            raise
        except Exception:  # JAX may have read data of the model in float32 for good
            try:
                comparisons = self._compare(values)
            except Exception as error:  # of any kind: the model itself has run before
                text = str(error).strip().partition("\n")[0]
                actual = f"{type(error).__name__}: {text}"
                message = f"{argument}: expected {SUM}, got {actual}. {BY_ROWS}"
                raise ValueError(message) from error
            tolerance = {True: SAME, False: SAME_IN_FLOAT32}[x64]
        for total, exact in comparisons:
            is_same = abs(total - exact) <= tolerance * (1 + abs(exact))
            actual = f"another number, {total:.6g} where the density of the model is {exact:.6g}"
            require(is_same, argument, SUM, actual, BY_ROWS)
        if not comparisons:
            text = f"{argument}: their sum could not be compared with the density of the model."
            remedy = "Compare a fit of a few rows with one whose sum you write by numpyro.factor."
            warnings.warn(f"{text} {remedy}", UserWarning, stacklevel=4)

    def _compare(self, values: Values) -> list[tuple[float, float]]:
        """The sums where all weight is on one value of the discrete sites, and the densities of the
        model there."""
        values = {name: np.asarray(x, jnp.result_type(float)) for name, x in values.items()}
        log_joint = quick_jit(lambda values, z: jnp.asarray(self.log_joint(values, z), float))
        program = quick_jit(jax.value_and_grad(self.log_density, argnums=1))
        dtype = jnp.result_type(float)
        _, slopes = program(values, {name: np.zeros(n, dtype) for name, n in self.shapes.items()})
        comparisons = []
        for places in self._possible_places(slopes):
            is_chosen = {
                name: np.arange(shape[-1]) == places[name][..., None]
                for name, shape in self.shapes.items()
            }
            weights = {
                name: np.where(mask, 0.0, -PENALTY).astype(dtype)
                for name, mask in is_chosen.items()
            }
            total, slopes = program(values, weights)
            exact = float(log_joint(values, self.choose_values(places)))
            # The sum is the density at these values if all its weight is there.
            if np.isfinite(exact) and _has_all_weight(slopes, places):
                comparisons.append((float(total), exact))
        return comparisons

    def _possible_places(self, slopes: Weights) -> list[dict[str, np.ndarray]]:
        """The numbers of the most probable values, and random ones of values that are possible."""
        slopes = {name: np.asarray(slope) for name, slope in slopes.items()}
        places = [{name: slope.argmax(-1) for name, slope in slopes.items()}]
        for seed in range(NUM_RANDOM):
            rng = np.random.default_rng(seed)
            noise = {name: rng.uniform(size=slope.shape) for name, slope in slopes.items()}
            random_places = {
                name: np.where(slope > POSSIBLE, noise[name], -slope.max()).argmax(-1)
                for name, slope in slopes.items()
            }
            places.append(random_places)
        return places

    def _first_axis(self) -> int:
        """The axis before those of all plates, for the values of a discrete site."""
        ranks = [
            len(_batch_shape(site)) for site in self.sites.values() if site["type"] == "sample"
        ]
        frames = [frame for site in self.sites.values() for frame in _frames(site)]
        return -1 - max([*ranks, *(-frame.dim for frame in frames)], default=0)

    def _check_plates(self, name: str, site: Mapping[str, Any]) -> None:
        """Raises ValueError where plates do not declare every axis of a batch: values of other axes
        would be summed out together."""
        is_declared = {axis for axis, (_, names) in self.axes.plates.items() if name in names}
        missing = [axis for axis in _missing_plates(site) if axis not in is_declared]
        argument = f"model: site {name!r}"
        actual = f"a batch of shape {_batch_shape(site)} without"
        remedy = "To sum out discrete sites, put it into numpyro.plate"
        if name not in self.supports:
            remedy += ", or make axes that are one event so by .to_event()"
        require(not missing, argument, "plates for its batch", actual, f"{remedy}.")


def discrete_posterior(
    enumeration: Enumeration, fit: Any, data: Any, key: PRNGKeyArray
) -> dict[str, Categorical]:
    """The posterior of each discrete site, averaged over draws of q: the answer to `Fit.locals`."""
    remedy = "The data are in the model: fit.locals(None, key=key)."
    require(data is None, "data", "None", "data", remedy)
    check_key(key)
    model = fit.alg.spec.model
    z = draw_coordinates(fit.posterior[Z], key, NUM_DRAWS)

    def bind(density_ref: Any) -> Callable[..., Any]:
        def average(hyper: Any, z: Any) -> Any:
            density = density_ref()

            def probabilities(z: Any) -> Any:
                values = density.values_and_derived(density.point(hyper, z))
                unknowns = {name: values[name] for name in enumeration.sample_names}
                return enumeration.probabilities(unknowns)

            return jax.tree.map(lambda p: jnp.mean(p, 0), jax.lax.map(probabilities, z))

        return quick_jit(average)

    program = cached_program(model.log_density, "discrete sites", bind)
    probabilities = jax.tree.map(np.asarray, program(fit.state.hyper, z))
    return {name: Categorical.from_probs(p) for name, p in probabilities.items()}


def shorten(names: Sequence[str]) -> str:
    """Names with commas between; of many the first and the last.

    >>> shorten(["a", "b"]), shorten([f"z{i}" for i in range(20)])
    ("'a', 'b'", "'z0', 'z1', ..., 'z19' (20 of them)")
    """
    texts = [repr(name) for name in names]
    if len(names) > MOST_NAMES:
        return f"{texts[0]}, {texts[1]}, ..., {texts[-1]} ({len(names)} of them)"
    return ", ".join(texts)


def _has_all_weight(slopes: Weights, places: Mapping[str, np.ndarray]) -> bool:
    """True where the probabilities of these values are one, up to rounding."""
    for name, slope in slopes.items():
        slope = np.asarray(slope)
        at_places = np.take_along_axis(slope, places[name][..., None], -1)[..., 0]
        if not np.all(at_places > (1 - SURE) * slope.sum(-1)):
            return False
    return True


# --- what a run shows -----------------------------------------------------------------------------
def _read_support(name: str, fn: Any) -> np.ndarray:
    """The values of a discrete site; ValueError if they are none, or too many."""
    argument = f"model: discrete site {name!r}"
    law = base_law(fn)
    is_vector = fn.event_dim > 0
    remedy = f"Put its entries into numpyro.plate, without .to_event(). {BY_HAND}"
    require(not is_vector, argument, "values that are numbers", f"vectors of {law}", remedy)
    actual = f"those of {law}"
    remedy = (
        f"{BY_HAND} Where large values have no weight, take numpyro's Categorical over 0, 1, ..., "
        "with probabilities that end there."
    )
    require(fn.has_enumerate_support, argument, "finitely many values", actual, remedy)
    try:
        support = np.asarray(fn.enumerate_support(expand=False)).reshape(-1)
    except (NotImplementedError, ValueError) as error:
        actual = f"{actual} ({error})"
        require(False, argument, "the same values in all rows", actual, BY_HAND)
    require(
        len(support) <= MOST_VALUES,
        argument,
        f"at most {MOST_VALUES} values",
        len(support),
        BY_HAND,
    )
    return support


def _check_scale(name: str, site: Mapping[str, Any]) -> None:
    """Raises ValueError for a discrete site under `handlers.scale` or `handlers.mask`, whose sum
    NumPyro takes of powers: a row of scale 2 is not the row twice."""
    scale = site.get("scale")
    # In a step of a scan a scale by data is unknown: NumPyro leaves JAX's tracer of it.
    is_traced = isinstance(scale, jax.core.Tracer)
    is_scaled = scale is not None and (is_traced or np.any(np.asarray(scale) != 1))
    masks = [getattr(law, "_mask", None) for law in wrapped_laws(site["fn"])]
    is_masked = any(mask is not None and not np.all(np.asarray(mask)) for mask in masks)
    remedy = (
        "The sum over its values would be one of powers, in which a row of scale 2 is not the row "
        "twice. Repeat rows, or leave them out; or sum the site out by hand, with numpyro.factor."
    )
    expected = f"discrete site {name!r} without numpyro.handlers.scale or mask"
    require(not (is_scaled or is_masked), "model", expected, "one under it", remedy)


def _check_values_of_steps(name: str, site: Mapping[str, Any], support: np.ndarray) -> None:
    """Raises ValueError for a site of a scan whose values do not begin at zero: NumPyro would sum
    over 0, 1, ... all the same."""
    is_counted = np.array_equal(support, np.arange(len(support)))
    actual = f"{support[0]}, ..., {support[-1]}"
    remedy = f"Sample it from zero, and add {support[0]} where it is used."
    argument = f"model: discrete site {name!r} of a scan"
    require(is_counted or not is_in_scan(site), argument, "values 0, 1, ...", actual, remedy)


def _batch_shape(site: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of a site's log density."""
    fn = site["fn"]
    value_shape = np.shape(site["value"])
    value_batch = value_shape[: len(value_shape) - fn.event_dim]
    return np.broadcast_shapes(tuple(fn.batch_shape), value_batch)


def _frames(site: Mapping[str, Any]) -> list[Any]:
    """The plates of a site that have an axis."""
    return [frame for frame in site.get("cond_indep_stack", ()) if frame.dim is not None]


def _missing_plates(site: Mapping[str, Any]) -> list[int]:
    """The axes of a batch that are in no plate."""
    shape = _batch_shape(site)
    plate_axes = {frame.dim for frame in _frames(site)}
    if is_in_scan(site):
        plate_axes.add(-len(shape))  # numpyro.contrib.control_flow.scan puts the steps first
    return [axis for axis in range(-len(shape), 0) if shape[axis] > 1 and axis not in plate_axes]


def _event_axes(sites: Sites) -> dict[str, int]:
    """Continuous unknowns whose batch is in no plate, with the number of its axes: their densities
    are summed, as those of one event."""
    unknowns = {name: site for name, site in latent(sites).items() if name not in discrete(sites)}
    return {
        name: len(_batch_shape(site))
        for name, site in unknowns.items()
        if _missing_plates(site) and not _frames(site) and not is_in_scan(site)
    }


def _plates_of_axes(
    sites: Sites, events: Mapping[str, int]
) -> dict[int, tuple[int, frozenset[str]]]:
    """The sizes of batch axes that may be taken as plates, with their sites; none where the model
    has plates of its own, or axes of several sizes."""
    samples = {name: site for name, site in sites.items() if site["type"] == "sample"}
    if any(_frames(site) or is_in_scan(site) for site in samples.values()):
        return {}
    names: dict[int, set[str]] = {}
    sizes: dict[int, set[int]] = {}
    for name, site in samples.items():
        if name in events:
            continue
        for axis in _missing_plates(site):
            names.setdefault(axis, set()).add(name)
            sizes.setdefault(axis, set()).add(_batch_shape(site)[axis])
    if any(len(lengths) > 1 for lengths in sizes.values()):
        return {}
    return {axis: (max(sizes[axis]), frozenset(names[axis])) for axis in sizes}
