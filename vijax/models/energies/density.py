"""Models as log densities, in which all variables are free and none is conjugate.

A guide q(x) over vectors x of real numbers is fitted to the target

    log p(values) + log |d values / d x|,

by ELBO = E_q[target] + H(q) (Kucukelbir et al. 2017, eq. 5)."""

from __future__ import annotations

import dataclasses
import functools
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from vijax import constrain
from vijax.checks import require, require_positive, traceable
from vijax.contract.array_checks import check_arrays, check_finite, check_lengths, check_numbers
from vijax.contract.batch import DataForm, Minibatch, fill_padding, one_group, weighted_sum
from vijax.contract.intake import Kind, array, cast, trace_kinds
from vijax.contract.model import Hyper, LocalElbo, Model, num_arguments
from vijax.contract.queries import answers, user_generative
from vijax.contract.variables import Free, FreeVariables, Variables, check_apart
from vijax.families import Product
from vijax.inference.guides import Guide, Z, full_rank
from vijax.models.energies.bend import Bend
from vijax.models.energies.coordinates import Hierarchy, Walk
from vijax.models.energies.declared_laws import declared_hierarchy
from vijax.models.energies.predictive_density import predictive_density
from vijax.models.energies.reference import Reference
from vijax.tree import to_device
from vijax.xla import by_value
from vijax.xla.compiler import cached_program, quick_jit

Values = Mapping[str, Any]
START, START_SD = 2.0, 0.05
"""The default largest distance from zero of the first means of q, as in Stan; and the first sd of q
as a share of this distance."""


class Frame(NamedTuple):
    """Coordinates relative to a location and a scale, x = shift + scale z. Relative to a good guess
    every posterior is near N(0, I), so that float32 suffices for strongly correlated variables."""

    shift: Float[Array | np.ndarray, " D"]
    # Lower triangular matrix, or standard deviations
    scale: Float[Array | np.ndarray, "D D"] | Float[Array | np.ndarray, " D"]
    # Orthonormal columns along which z is stretched before it is scaled by standard deviations
    directions: Float[Array | np.ndarray, "D r"] | None = None
    # The factors of this stretch
    stretch: Float[Array | np.ndarray, " r"] | None = None
    # The information of the data on variables whose law depends on others; x are then coordinates
    # of a `Hierarchy`
    reference: Reference | None = None
    # The bend of these coordinates, for a full covariance
    bend: Bend | None = None

    def point(self, z: Float[Array, " D"]) -> Float[Array, " D"]:
        """x."""
        if self.directions is not None and self.stretch is not None:
            along = jnp.asarray(self.directions)
            z = z + along @ ((z @ along) * (jnp.asarray(self.stretch) - 1))
        scaled = self.scale * z if jnp.ndim(self.scale) == 1 else self.scale @ z
        return jnp.asarray(self.shift) + scaled

    def log_det(self) -> Float[Array, ""]:
        """log |d x / d z|."""
        scales = self.scale if jnp.ndim(self.scale) == 1 else jnp.diagonal(self.scale)
        log_stretch = 0.0 if self.stretch is None else jnp.sum(jnp.log(self.stretch))
        return jnp.sum(jnp.log(jnp.abs(scales))) + log_stretch


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LogDensity(FreeVariables):
    """The log density of free coordinates that `density` makes a model of: `model.free`."""

    is_all = True
    variables: Variables  # the free variables
    log_prior: Callable[[Values], Array]  # values -> scalar
    # (values, group) -> scalar; None without data
    log_lik: Callable[[Values, PyTree], Array] | None
    is_whole: bool  # True if all the data are one group
    guide: Guide  # the family of q
    # values -> further values by name, for draws
    derived: Callable[[Values], Mapping[str, Any]] | None = None
    # Largest distance from zero of the first means of q, in free coordinates
    start: float = START
    # True if q is a density of coordinates relative to `hyper["frame"]`, a `Frame`; else it is one
    # of the free coordinates
    is_framed: bool = False
    num_directions: int = 0  # stretched directions of this frame
    # values -> scalar: the part of `log_prior` that is a prior, if it holds a likelihood too and
    # the part is known
    prior_part: Callable[[Values], Array] | None = None
    # Variables whose law depends on others, and their coordinates in `vijax.auto`
    hierarchy: Hierarchy | None = None
    # The library that the model was written in, for remedies; "" for vijax
    source: str = ""

    @property
    def reads_data(self) -> bool:
        return self.log_lik is not None

    @property
    def has_groups(self) -> bool:
        """True if the likelihood is a sum over groups of the data."""
        return self.reads_data and not self.is_whole

    @property
    def start_sd(self) -> float:
        """First standard deviation of q."""
        return self.start * START_SD

    def values_at(self, x: Float[Array, " D"]) -> dict[str, Any]:
        """The variables' values at free coordinates."""
        return self.variables.values(x)[0]

    def log_prior_at(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """Log prior of the free coordinates."""
        argument = "log_density" if self.log_lik is None else "log_prior"
        return _call(self.log_prior, argument, self.values_at(x)) + self.variables.log_prior(x)

    def prior_part_at(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        """Log prior of the free coordinates without the part that is a likelihood, if known."""
        if self.prior_part is None:
            return self.log_prior_at(x)
        return dataclasses.replace(self, log_prior=self.prior_part).log_prior_at(x)

    def log_liks_at(self, x: Float[Array, " D"], data: PyTree) -> Float[Array, " groups"]:
        """Log likelihood of each group."""
        values = self.values_at(x)
        lik = self.log_lik
        if lik is None:
            return jnp.zeros(jax.tree.leaves(data)[0].shape[0], x.dtype)
        name = "log_density" if self.is_whole else "log_lik"
        return jax.vmap(lambda group: _call(lik, name, values, group))(data)

    def as_read(self, groups: PyTree) -> PyTree:
        """Groups of data, cast to the types that the density reads."""
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), groups)
        x = to_device(np.zeros(self.variables.dim, jnp.result_type(float)))
        return cast(trace_kinds(shapes, lambda groups: self.log_liks_at(x, groups)), groups)

    def check_indices(self, data: PyTree, kinds: Sequence[Kind]) -> None:
        """ValueError at an index beyond what it points into, of which JAX takes the nearest entry
        in silence. Only the rows with the largest and the smallest indices are tried."""
        leaves = jax.tree_util.tree_leaves_with_path(data)
        indices = {
            f"data{jax.tree_util.keystr(path)}": np.asarray(array(x))
            for kind, (path, x) in zip(kinds, leaves, strict=True)
            if kind == "index"
        }
        for name, x in indices.items():
            if x.size and x.min() < 0:
                text = (
                    f"{name}: {int((x < 0).sum()):,} indices are below 0, and so are counted from "
                    "the end. pandas' cat.codes are -1 for a missing category: leave these rows "
                    "out."
                )
                warnings.warn(text, UserWarning, stacklevel=5)
        if self.is_whole or not indices:
            return
        places = np.unique(np.concatenate([_extreme_rows(x) for x in indices.values()]))
        groups = jax.tree.map(lambda x: np.asarray(array(x))[places], data)
        x = to_device(np.zeros(self.variables.dim, jnp.result_type(float)))
        log_liks = checkify.checkify(
            lambda groups: self.log_liks_at(x, groups), errors=checkify.index_checks
        )
        try:
            error, _ = quick_jit(log_liks)(cast(kinds, groups))
            message = error.get()
        except NotImplementedError as error:
            text = (
                f"Whether indices of the data are within their variables was not checked: {error}"
            )
            warnings.warn(text, UserWarning, stacklevel=5)
            return
        except Exception:  # whatever the user's function raises, it raises again in the fit
            return
        if message is not None:
            bounds = message.partition(":")[2].strip(" .")
            raise ValueError(
                f"{' or '.join(indices)}: expected indices of the entries that log_lik reads: "
                f"{bounds}. JAX takes the nearest entry instead. Count codes from 0, and give the "
                "variable an entry for each."
            )

    def point(self, hyper: Hyper, z: Float[Array, " D"]) -> Float[Array, " D"]:
        """The free coordinates at coordinates of the guide."""
        frame = read_frame(hyper)
        if frame is None:
            return z
        return self.to_free(frame.reference, frame.bend, frame.point(z))[0]

    def log_volume(self, hyper: Hyper, z: Float[Array, " D"]) -> Float[Array, ""]:
        """log |d x / d z| of the free coordinates x at coordinates z of the guide."""
        frame = read_frame(hyper)
        if frame is None:
            return jnp.zeros(())
        return frame.log_det() + self.to_free(frame.reference, frame.bend, frame.point(z))[1]

    def to_free(
        self, reference: Reference | None, bend: Bend | None, z: Float[Array, " D"]
    ) -> tuple[Float[Array, " D"], Float[Array, ""]]:
        """The free coordinates x at bent coordinates z of a hierarchy, and log |d x / d z|."""
        x, log_volume = z, jnp.zeros((), z.dtype)
        if bend is not None:
            x, log_volume = bend.point(z)
        if reference is None or self.hierarchy is None:
            return x, log_volume
        point = self.hierarchy.to_free(reference, x)
        return point.free, log_volume + point.log_volume

    def coordinates(
        self, reference: Reference | None, bend: Bend | None, x: Float[Array, " D"]
    ) -> Float[Array, " D"]:
        """The bent coordinates of a hierarchy at free coordinates."""
        if reference is not None and self.hierarchy is not None:
            x = self.hierarchy.coordinates(reference, x)
        return x if bend is None else bend.coordinates(x)

    def values(self, hyper: Hyper, draws: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the variables at draws, and the values derived from these."""
        return jax.vmap(lambda z: self.values_and_derived(self.point(hyper, z)))(draws[Z])

    def visible(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values without the variables whose names begin with "_", if others are derived from
        them."""
        if self.derived is None:
            return values
        hidden = {name for name in self.variables.names if name.startswith("_")}
        return {name: x for name, x in values.items() if name not in hidden}

    def values_and_derived(self, x: Float[Array, " D"]) -> dict[str, Any]:
        """The values of the variables at free coordinates, and the values derived from these."""
        values = self.values_at(x)
        if self.derived is None:
            return values
        return {**values, **self.derived(values)}

    def given_others(
        self, model: Any, hyper: Hyper, posterior: Product, key: PRNGKeyArray
    ) -> tuple[LogDensity, tuple[()]]:
        """The density itself, since it has no other variables."""
        return self, ()

    def start_in_words(self) -> str:
        """A sentence on the start of a fit by steps, on nearer starts, and on `vijax.auto`."""
        auto = "vijax.auto(model, data, key=key) searches for a start itself."
        if self.is_framed:
            return f"It started at the place and scale of another fit. {auto}"
        if self.source:
            return f"{SOURCE_STARTS.format(source=self.source)} {auto}"
        return (
            f"q starts with means within {self.start:g} of zero and sds of {self.start_sd:g} in "
            "free coordinates "
            "(logarithms of positive variables), where the density may not be finite. Start "
            "nearer, as in "
            f"vijax.density(..., start={self.start / 10:g}), with variables for which zero is "
            f"plausible; or {auto}"
        )


SOURCE_STARTS = (
    "It starts within 2 of zero in free coordinates (logarithms of positive variables), where the "
    "density may not be finite. Centre and scale the data, or write the variables in {source} so "
    "that zero is plausible; float64 helps where probabilities are rounded: "
    "jax.config.update('jax_enable_x64', True) before the model is taken."
)


def require_log_density(model: Model, remedy: str) -> LogDensity:
    """The log density of a model whose variables are all free; ValueError for other models."""
    is_density = model.log_density is not None
    require(is_density, "model", "a log density (vijax.density)", "another model", remedy)
    return model.log_density


def with_prior(model: Model, log_prior: Callable[[Values], Array]) -> Model:
    """A log density in one piece with a known prior part: `vijax.auto` spreads its starts by it."""
    density = dataclasses.replace(model.log_density, prior_part=log_prior)
    return by_value.pickle_as_call(
        _make_model(density, model.queries), with_prior, model, log_prior
    )


def with_hierarchy(model: Model, walk: Walk, levels: tuple[tuple[str, ...], ...]) -> Model:
    """A log density in which the law of some variables depends on others
    (`vijax.models.energies.coordinates`)."""
    log_density = require_log_density(model, "")
    log_density = dataclasses.replace(
        log_density, hierarchy=Hierarchy(log_density.variables, walk, levels)
    )
    new_model = dataclasses.replace(_make_model(log_density, model.queries), form=model.form)
    return by_value.pickle_as_call(new_model, with_hierarchy, model, walk, levels)


def with_source(model: Model, source: str, queries: Mapping[str, Any]) -> Model:
    """A log density that was written in another library, with answers to more questions
    (`vijax.contract.queries`)."""
    log_density = dataclasses.replace(model.log_density, source=source)
    new_model = _make_model(log_density, {**model.queries, **queries})
    new_model = dataclasses.replace(new_model, form=_keep_data(new_model.form, model.form))
    return by_value.pickle_as_call(new_model, with_source, model, source, queries)


def _keep_data(form: DataForm, old_form: DataForm) -> DataForm:
    """The form with the data of another one."""
    return dataclasses.replace(form, given=old_form.given)


def read_frame(hyper: Hyper) -> Frame | None:
    """The frame in a state's hyperparameters; None if q is a density of the free coordinates."""
    return hyper.get("frame")


def with_guide(
    model: Model, guide: Guide, is_framed: bool | None = None, num_directions: int = 0
) -> Model:
    """A log density whose q has another family, and with `is_framed` coordinates relative to a
    frame in the state of the fit."""
    log_density = require_log_density(
        model,
        "Give the guide of an energy to vijax.energy_model(structure=vijax.Structure(guide=...)).",
    )
    framed = log_density.is_framed if is_framed is None else is_framed
    old = (log_density.guide, log_density.is_framed, log_density.num_directions)
    if (guide, framed, num_directions) == old:
        return model
    return by_value.intern(model, _GuideModel(model, guide, framed, num_directions)).made


@dataclasses.dataclass(frozen=True)
class _GuideModel:
    """One model for each guide, so that an algorithm that is made again compiles nothing."""

    model: Model
    guide: Guide
    is_framed: bool
    num_directions: int
    made: Model = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        guide, framed, count = self.guide, self.is_framed, self.num_directions
        log_density = dataclasses.replace(
            self.model.log_density, guide=guide, is_framed=framed, num_directions=count
        )
        new_model = dataclasses.replace(
            _make_model(log_density, self.model.queries), form=self.model.form
        )
        object.__setattr__(
            self,
            "made",
            by_value.pickle_as_call(new_model, with_guide, self.model, guide, framed, count),
        )


@by_value.cache_by_value
def density(
    variables: Mapping[str, Free | PyTree],
    log_density: Callable[..., Any] | None = None,
    *,
    log_prior: Callable[[Values], Any] | None = None,
    log_lik: Callable[[Values, PyTree], Any] | None = None,
    guide: Guide | None = None,
    derived: Callable[[Values], Mapping[str, Any]] | None = None,
    sample: Callable[[Values, PyTree, PRNGKeyArray], PyTree] | None = None,
    start: float = START,
) -> Model:
    """A model from a log density of free variables.

    Args:
      variables: names to `vijax.free(shape, support)`, or to trees of these.
      log_density: `log_density(x)`, or `log_density(x, data)` with all the data: the log joint
        density, up to a constant, at values `x[name]` in their supports. Jacobians are added by
        vijax. A parameter with a default is not data.
      log_prior: instead of `log_density`, `log_prior(x)`, which counts once a step. Priors of the
        variables are added; if all variables have one it may be left out.
      log_lik: beside `log_prior`, `log_lik(x, group)` of one group of data (arrays without their
        leading axis). It is mapped over the groups of a minibatch and scaled by N / S; the prior is
        not. Integers and booleans among the data are passed as floats, unless the density uses them
        as indices or masks (`vijax.contract.intake`).
      guide: family of q (`vijax.guides`); None is `full_rank()`. Algorithms may replace it:
          `vijax.advi(model, guide=)`.
      derived: `derived(x)`, further values by name that are functions of the variables, such as the
        effects of a non-centred hierarchy. `fit.sample` returns them beside the variables.
        Variables whose names begin with an underscore are not returned, only values derived from
        them.
      sample: `sample(x, group, key)`, a group with the inputs of `group` and observations drawn
        from the likelihood at x; with `log_density(x, data)` it is `sample(x, data, key)`, for all
        the data. `Fit.predictive` then draws data.
      start: fits by steps begin with means of q drawn from -start to start, and sds of a twentieth
        of start, in free coordinates (logarithms of positive variables). Lower it if the density is
        not finite that far from zero, as with differential equations; zero should then be a
        plausible value. `vijax.auto` searches for a start itself.

    Returns:
      A `Model`, for `vijax.auto`, `vijax.advi`, `vijax.ngvi`, `vijax.bbvi`, and any
      `vijax.compose`. With `log_lik`, `fit.score(other, key=key)` is the log predictive density of
      other groups.

    Raises:
      ValueError: `variables` that are not free variables; neither or both forms of a density; a
        density that returns an array or an integer, or reads an unknown name; a derived value with
        a variable's name; when used, a density that is finite nowhere.

    A normal mean with a scale of half-normal prior:

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> from jax.scipy.stats import norm
    >>> model = density(
    ...     {"mean": vi.free(), "scale": vi.free(support="positive")},
    ...     log_prior=lambda x: norm.logpdf(x["mean"], 0, 10) + norm.logpdf(x["scale"], 0, 5),
    ...     log_lik=lambda x, y: norm.logpdf(y, x["mean"], x["scale"]))
    >>> fit = vi.auto(model, jnp.array([1.0, 2.0, 3.0, 4.0]), key=jax.random.key(0))
    >>> draws = fit.sample(jax.random.key(1), 4000)
    >>> print(f"{draws['mean'].mean():.1f}, scale above 0: {bool(jnp.all(draws['scale'] > 0))}")
    2.5, scale above 0: True
    """
    free_variables = Variables.from_tree(variables)
    check_apart(free_variables.shapes, "variables")
    require_positive(start=start)
    parts = _density_parts(free_variables, log_density, log_prior, log_lik)
    argument = "log_prior" if log_density is None else "log_density"
    _check_prior(free_variables, parts["log_prior"], argument)
    _check_derived_values(free_variables, derived)
    reads = parts["log_lik"] is not None
    require(reads or sample is None, "sample", "None of a density that reads no data", "a function")
    check = check_numbers if parts["is_whole"] else check_arrays
    generative = user_generative(sample, None, check, parts["is_whole"])
    parts["hierarchy"] = declared_hierarchy(free_variables)
    density_of_values = LogDensity(
        free_variables, guide=guide or full_rank(), derived=derived, start=float(start), **parts
    )
    return _make_model(density_of_values, answers(generative))


def _density_parts(
    variables: Variables, log_density: Any, log_prior: Any, log_lik: Any
) -> dict[str, Any]:
    """`log_prior`, `log_lik` and `is_whole` of a `LogDensity`; ValueError for no form of a density,
    and for both."""
    has_parts = log_prior is not None or log_lik is not None
    remedy = "Give log_density alone, or log_prior and log_lik."
    forms = "both" if log_density is not None and has_parts else "none"
    is_one_form = (log_density is None) == has_parts
    require(is_one_form, "log_density", "one form of the density", forms, remedy)
    no_prior = lambda x: jnp.zeros(())
    if log_density is None:
        remedy = "Or give every variable one of its own: vijax.free(..., log_prior=...)."
        has_prior = log_prior is not None or variables.has_priors
        require(has_prior, "log_prior", "a function of the values", "none", remedy)
        prior = log_prior or no_prior
        return {"log_prior": prior, "log_lik": log_lik, "is_whole": log_lik is None}
    if num_arguments(log_density) > 1:
        return {"log_prior": no_prior, "log_lik": log_density, "is_whole": True}
    return {"log_prior": log_density, "log_lik": None, "is_whole": True}


def _make_model(density: LogDensity, queries: Mapping[str, Any]) -> Model:
    """The model of a log density, with these queries and the score."""
    dtype = jnp.result_type(float)
    guide = density.guide.assign(density.variables.places)
    start_at = lambda mean, sd: Product({Z: guide.member(mean, sd)})
    dim = density.variables.dim

    def local_elbo(
        hyper: Hyper, stats: PyTree, batch: Minibatch, key: PRNGKeyArray, estep: Any
    ) -> LocalElbo:
        data = batch.data
        if batch.weights is not None:
            data = fill_padding(data, jnp.asarray(batch.weights))
        x = density.point(hyper, stats[Z].value)
        log_liks = density.log_liks_at(x, jax.tree.map(jnp.asarray, data))
        weights = jnp.ones_like(log_liks)
        if batch.weights is not None:
            weights = jnp.asarray(batch.weights, log_liks.dtype)
        total = weighted_sum(weights, log_liks)
        return LocalElbo(total, jnp.sum(weights), jax.lax.stop_gradient(log_liks), None)

    def global_elbo(hyper: Hyper, stats: PyTree) -> Float[Array, ""]:
        z = stats[Z].value
        log_prior = density.log_prior_at(density.point(hyper, z))
        return log_prior + density.log_volume(hyper, z).astype(z.dtype)

    def init(hyper: Hyper, key: PRNGKeyArray, prior: Product, batch: Minibatch | None) -> Product:
        if density.is_framed:
            return prior
        width = density.start
        return start_at(jax.random.uniform(key, (dim,), dtype, -width, width), density.start_sd)

    score = functools.partial(predictive_density, density) if density.has_groups else None
    return Model(
        hyper={"frame": _no_frame(density)} if density.is_framed else {},
        prior=lambda hyper: start_at(to_device(np.zeros(dim, dtype)), 1.0),
        local_elbo=local_elbo,
        init=init,
        constraints={"frame": constrain.real()} if density.is_framed else None,
        global_elbo=global_elbo,
        free=density,
        form=DataForm(
            lambda data: _check_data(density, data),
            one_group=density.is_whole,
            check_indices=density.check_indices,
        ),
        queries={**queries, **answers(score=score)},
    )


def _no_frame(density: LogDensity) -> Frame:
    """The frame that changes nothing, in the shapes that fit the guide."""
    dtype = jnp.result_type(float)
    dim = density.variables.dim
    count = density.num_directions
    zeros, ones = np.zeros(dim, dtype), np.ones(dim, dtype)
    reference = None if density.hierarchy is None else Reference.identity(dim)
    if count:
        directions, stretch = np.zeros((dim, count), dtype), np.ones(count, dtype)
        return Frame(zeros, ones, directions, stretch, reference)
    if density.guide.is_correlated:
        bend = Bend.none(dim)
        return Frame(zeros, np.eye(dim, dtype=dtype), reference=reference, bend=bend)
    return Frame(zeros, ones, reference=reference)


# --- checks ---------------------------------------------------------------------------------------
def _call(density: Callable, argument: str, *arguments: Any) -> Float[Array, ""]:
    """The number that a density returns; ValueError for anything else."""
    with traceable(argument):
        x = density(*arguments)
    remedy = "Let the function return its value."
    require(x is not None, argument, "one number", "None", remedy)
    shape, dtype = jnp.shape(x), jnp.result_type(x)
    remedy = "Sum over its terms: jnp.sum(...)."
    require(shape == (), argument, "one number", f"an array of shape {shape}", remedy)
    is_real = jnp.issubdtype(dtype, jnp.floating)
    remedy = "A density of floats has a gradient; this has none."
    require(is_real, argument, "a real number", f"one of type {dtype}", remedy)
    return jnp.asarray(x)


def _check_prior(variables: Variables, log_prior: Callable, argument: str) -> None:
    """Raises ValueError if a density of values alone reads an unknown name or returns no number."""
    x = jax.ShapeDtypeStruct((variables.dim,), jnp.result_type(float))
    try:
        jax.eval_shape(lambda x: _call(log_prior, argument, variables.values(x)[0]), x)
    except (KeyError, AttributeError) as error:
        _say_what_is_read(argument, variables, error)


def _say_what_is_read(argument: str, variables: Variables, error: Exception) -> None:
    """Raises ValueError for an unknown name, and for a name read as v.name; other errors are raised
    as they are."""
    expected = f"a function of the variables {variables.names}"
    if isinstance(error, KeyError):
        require(False, argument, expected, f"one that reads {error}")
    if "'dict' object" not in str(error):
        raise error
    name = str(error).rpartition(" ")[2].strip("'")
    remedy = f"Values have names: v[{name!r}], not v.{name}."
    require(False, argument, expected, f"one that reads .{name}", remedy)


def _check_derived_values(variables: Variables, derived: Callable | None) -> None:
    """Raises ValueError unless `derived` returns a mapping of names that no variable has."""
    if derived is None:
        return
    x = jax.ShapeDtypeStruct((variables.dim,), jnp.result_type(float))
    with traceable("derived"):
        values = jax.eval_shape(lambda x: derived(variables.values(x)[0]), x)
    is_mapping = isinstance(values, Mapping)
    require(is_mapping, "derived", "a mapping of names to values", type(values).__name__)
    repeated = sorted(set(values) & set(variables.names))
    expected = f"names other than those of the variables {variables.names}"
    require(not repeated, "derived", expected, repeated)
    leaves, _ = jax.tree_util.tree_flatten_with_path(dict(values))
    shapes = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        shapes.append((name, leaf.shape))
    check_apart([*variables.shapes, *shapes], "derived")


def _check_data(density: LogDensity, data: PyTree) -> None:
    """Raises ValueError if the density cannot read the data, or is finite at none of eight random
    starts."""
    if data is None:
        data = one_group(None)
    if density.log_lik is None:
        remedy = "log_density(x, data) reads data: a second parameter, without a default."
        leaves = jax.tree.leaves(data)
        is_empty = [np.shape(x) for x in leaves] == [(1,)] and leaves[0][0] == 0  # `one_group`
        require(is_empty, "data", "None, because this density reads no data", "data", remedy)
    else:
        check_numbers(data)
        check_finite(data)
        if not density.is_whole:
            check_lengths(data)
    width = density.start
    rng = np.random.default_rng(0)
    starts = rng.uniform(-width, width, (8, density.variables.dim)).astype(jnp.result_type(float))
    groups = density.as_read(jax.tree.map(lambda x: array(x)[:64], data))
    program = cached_program(density, "check", lambda density: quick_jit(_totals(density)))
    try:
        densities = np.asarray(program(starts, groups))
    except (KeyError, AttributeError) as error:
        _say_what_is_read("log_lik", density.variables, error)
    remedy = (
        "Look for logarithms of zero and supports that the variables do not declare; or begin "
        "nearer to zero: "
        f"vijax.density(..., start={width / 10:g})."
    )
    if density.source:
        remedy = SOURCE_STARTS.format(source=density.source)
    expected = "one finite at any of eight random starts"
    require(np.isfinite(densities).any(), "log_density", expected, densities, remedy)


def _totals(of: weakref.ref[LogDensity]) -> Callable[..., Any]:
    def total(x: Array, groups: PyTree) -> Array:
        density: Any = of()
        return density.log_prior_at(x) + jnp.sum(density.log_liks_at(x, groups))

    return jax.vmap(total, (0, None))


def _extreme_rows(indices: Int[np.ndarray, N * shape]) -> Int[np.ndarray, " rows"]:
    """The rows with the largest and the smallest index of each column."""
    columns = indices.reshape(len(indices), -1)[:, :MOST_COLUMNS]
    return np.unique(np.concatenate([columns.argmax(0), columns.argmin(0)]))


MOST_COLUMNS = 64
"""Columns of indices whose bounds are tried."""
