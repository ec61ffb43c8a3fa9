"""Models as energies: the log joint, written once as a multilinear function of the sufficient
statistics of all variables.

For globals beta with priors, and for each group n of observations y_n with locals z_n, let

    log p(y_n, z_n | beta) = E(t(beta), t(z_n), y_n) + log h(z_n),

where E is linear in the statistics of each variable separately. Then the complete conditional of a
variable is the member of its family whose natural parameter is the *gradient* of the energy in the
statistics of this variable. All else follows without derivations: coordinate ascent (the gradient
at mean statistics), Gibbs sampling (the gradient at statistics of draws), the bound, and hence
every algorithm of `vijax.algorithms` (Blei, Kucukelbir and McAuliffe 2017, eq. 18, 38 and 41;
Hoffman and Blei 2015, section 2.6).

With locals q(z; l), l = grad_{t(z)} E, the bound is  E(s, mu) + sum_z (A(l) - <l, mu>), log h and
log g included: at the exact conditional it equals log p(y_n | beta).
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.constrain import real
from vijax.contract import init as starts
from vijax.contract.batch import DataForm, Minibatch, fill_padding, weighted_sum
from vijax.contract.intake import cast
from vijax.contract.model import Estimates, Hyper, LocalElbo, LocalsPlan, Model, PriorFunctions
from vijax.contract.queries import Generative, answers, user_generative
from vijax.families import Family, Product
from vijax.families.base import as_array
from vijax.families.construction import require_proper
from vijax.inference.estep import Conditionals, OfConditionals, mean_field
from vijax.inference.guides import Guide, Z, full_rank
from vijax.models.energies.blind import blind_locals
from vijax.models.energies.discrete import PENALTY, Affine, keep_joint, penalise
from vijax.models.energies.energy_checks import (
    check_families,
    check_free,
    check_plates,
    check_points,
    find_blocks,
    mean_statistics,
    readable,
    zeros,
)
from vijax.models.energies.examples import (
    array_kinds,
    array_shapes,
    check_finite,
    check_groups,
    values_like,
)
from vijax.models.energies.free_part import FreePart, split
from vijax.tree import register, to_device
from vijax.xla.by_value import NotComparableError, cache_while_used, structure_key
from vijax.xla.chunks import groups_per_chunk, merge_chunks, split_chunks, sum_over_chunks

EnergyFn = Callable[..., Float[Array, ""]]
Stats = Mapping[str, Any]


class Shapes(NamedTuple):
    """Shapes of one group and of the statistics of the globals, as at the checks of an energy."""

    example: PyTree
    stats: PyTree


@register
@dataclasses.dataclass(frozen=True)
class Conditional:
    """A global whose prior depends on other globals; see `conditional`."""

    template: Family


def conditional(template: Family) -> Conditional:
    """Marks a global whose density given other globals is a term of `prior_energy` (a hierarchy),
    base measure included. `template` is a proper member of its family: it gives the shape, and the
    start of the posterior."""
    is_family = isinstance(template, Family)
    require(is_family, "template", "a family (vijax.families)", type(template).__name__)
    require_proper("template", template)
    return Conditional(template)


@dataclasses.dataclass(frozen=True, eq=False)
class Energy:
    """The arguments of `energy_model`, checked.

    Attributes:
      possible: (stats, group, hyper) -> scalar, the energy of possible events.
      impossible: (stats, group, hyper) -> scalar, the number of impossible events; None for an
          energy without impossible events.
      prior: hyper -> prior of the globals. Hierarchical globals have a reference as prior, which
          `prior_fn` subtracts.
      prior_fn: (stats, hyper) -> scalar, terms of globals alone; None without such terms.
      locals: group -> templates of its local families, by name.
      shapes: shapes of the example and of the statistics of the globals.
      global_blocks, local_blocks: names that may be updated at once, in order.
      plates: locals whose entries are coupled to each other.
      start: group -> the start of E-steps, by name of local; None takes the templates.
      any_size: True if groups may have other sizes than the example.
      blind: names of locals whose conditionals under the prior do not depend on the data; None if
          this was not checked.
    """

    possible: Callable[[Stats, PyTree, Hyper], Float[Array, ""]]
    impossible: Callable[[Stats, PyTree, Hyper], Float[Array, ""]] | None
    prior: Callable[[Hyper], Product]
    prior_fn: Callable[[Stats, Hyper], Float[Array, ""]] | None
    locals: Callable[[PyTree], dict[str, Family]]
    shapes: Shapes
    global_blocks: tuple[tuple[str, ...], ...]
    local_blocks: tuple[tuple[str, ...], ...]
    plates: tuple[str, ...] = ()
    start: Callable[[PyTree], Mapping[str, Family]] | None = None
    any_size: bool = False
    blind: tuple[str, ...] | None = None

    @property
    def has_coupled_locals(self) -> bool:
        """True if the E-step iterates."""
        return len(self.local_blocks) > 1 or bool(self.plates)

    def conditionals(
        self, block: Sequence[str], stats: Stats, group: PyTree, hyper: Hyper
    ) -> dict[str, Family]:
        """The complete conditionals of these locals, given the statistics of all other
        variables."""
        part = {name: stats[name] for name in block}
        slopes = lambda f: jax.grad(lambda part: f({**stats, **part}, group, hyper))(part)
        counts = None if self.impossible is None else slopes(self.impossible)
        families = self.locals(group)
        templates = {name: families[name] for name in block}
        return self.members(templates, slopes(self.possible), counts)

    def fn(self, stats: Stats, group: PyTree, hyper: Hyper) -> Float[Array, ""]:
        """The energy at some statistics, plus the negative `PENALTY` for each impossible event."""
        energy = self.possible(stats, group, hyper)
        if self.impossible is None:
            return energy
        return energy + PENALTY * self.impossible(stats, group, hyper)

    def affine(
        self, stats: Stats, group: PyTree, hyper: Hyper, templates: Mapping[str, Family]
    ) -> list[Affine]:
        """The energy, and the number of impossible events if they can occur, as functions of locals
        that are not coupled. `stats` has the statistics of all other variables."""
        functions = [self.possible]
        if self.impossible is not None:
            functions.append(self.impossible)
        zero = zero_stats(templates)
        linearise = lambda f: jax.value_and_grad(lambda local: f({**stats, **local}, group, hyper))
        return [Affine(*linearise(f)(zero)) for f in functions]

    def members(
        self, templates: Mapping[str, Family], naturals: Stats, counts: Stats | None
    ) -> dict[str, Family]:
        """The families with these natural parameters; impossible values get probability zero."""
        if counts is None:
            return {name: q.with_naturals(naturals[name]) for name, q in templates.items()}
        return {name: penalise(q, naturals[name], counts[name]) for name, q in templates.items()}

    def check_groups(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError unless data are groups like the example. Only shapes are read, so that
        data may be traced."""

        def energy_at_zero(group: PyTree) -> Float[Array, ""]:
            stats = {**zeros(self.shapes.stats), **zero_stats(self.locals(group))}
            return self.fn(stats, group, hyper)

        check_groups(self.shapes.example, data, energy_at_zero, self.locals, self.any_size)

    def check_values(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError for data that are not finite and at which the energy is not finite."""

        def is_finite(group: PyTree) -> bool:
            stats = {**self.prior(hyper).expected_stats(), **mean_statistics(self.locals(group))}
            return bool(jnp.isfinite(self.fn(stats, group, hyper)))

        check_finite(data, is_finite)


@cache_while_used
def energy_model(
    *,
    globals: Mapping[str, Any] | Callable[[Hyper], Mapping[str, Any]],
    energy: EnergyFn,
    example: PyTree,
    impossible: EnergyFn | None = None,
    locals: Mapping[str, Family] | Callable[[PyTree], Mapping[str, Family]] | None = None,
    prior_energy: EnergyFn | None = None,
    hyper: Hyper | None = None,
    points: Mapping[str, PyTree] | None = None,
    guide: Guide | None = None,
    order: Sequence[str] | None = None,
    joint: Sequence[Sequence[str]] = (),
    plates: Sequence[str] = (),
    start: Callable[[PyTree], Mapping[str, Family]] | None = None,
    init: starts.Init | None = None,
    estep: Any = None,
    check_data: Callable[[PyTree], None] | None = None,
    score: Callable[[Hyper, Estimates, PyTree, PRNGKeyArray], Any] | None = None,
    prior_as_point: bool = False,
    any_size: bool = False,
    sample: Callable[[Mapping[str, Any], PyTree, PRNGKeyArray], PyTree] | None = None,
    sample_locals: Callable[[Mapping[str, Any], PyTree, PRNGKeyArray], Mapping[str, Any]]
    | None = None,
    generative: Generative | None = None,
) -> Model:
    """A model from its log joint.

    Args:
      globals: the globals' priors by name, each a family or a function from `hyper` to one; or a
        function from `hyper` to all of them. `vijax.conditional(template)` is for a global whose
        prior depends on other globals; `vijax.free(shape, support, log_prior)` for one on which the
        energy may depend in any differentiable way, such as the weights of a network or a length
        scale: `stats[name]` is then its *value*.
      energy: (stats, group) -> log p(y_n, z_n | beta) less the base measures of z_n, a scalar:
        `stats[name]` are the sufficient statistics of each global and local, `group` the data of
        one group. Write it for one group: vijax batches it. The docstring of each family states its
        base measure: a gamma local has `shape * s["z"].log`, not `(shape - 1) * s["z"].log`.
        `vijax.check_energy` compares it with the log density of a textbook. With `hyper`, it is
        called with (stats, group, hyper). Never -inf: see `impossible`.
      example: data of one group, for their shapes and types. Their values do not matter: vijax
        checks that the energy is multilinear, and finds the variables that it couples, at the
        example and at random values like it. Data must have its shapes; if `locals` have as many
        entries as a group has steps, groups may be longer or shorter. Booleans are masks. Floats
        and integers reach the energy as floats, so that squares do not wrap; integers that it uses
        as indices (`table[y]`) reach it as int32.
      impossible: structural zeros: the number of impossible events of a configuration, as a
        function of the same arguments as `energy` and multilinear like it. A configuration with a
        positive number has probability zero, and `energy` may be any finite number at it. For
        transitions that only some pairs of states allow, take `jnp.where(allowed, log_p, 0.0)` in
        the energy, and `lambda s, y: jnp.sum(jnp.where(allowed, 0.0, s["z"].transition))` here. Add
        up products of nonnegative statistics, so that rounding does not make a count of zero
        positive. If a local has no possible value given the others, mean field needs a possible
        start, or `joint` locals. A Dirichlet over some of the classes has concentrations of 1e-20
        for the others.
      locals: the families of the group's local variables by name; iterative E-steps start at the
        values of their natural parameters. Their whole density, less the base measure, belongs to
        the energy: for a local of known law q it is `q.energy_term(s["z"])`. Or a function from a
        group to these families.
      prior_energy: (stats) -> log density of the `conditional` globals given the others, plus that
        of free globals that have no `log_prior` or whose prior depends on others (`stats[name]` is
        the value); with `hyper`, (stats, hyper).
      hyper: positive hyperparameters by name, which `compose(learn=...)` may learn.
      points: trees of real numbers by name, such as the weights of a network, which are fitted by a
        point. The energy reads them beside `hyper`, and `compose(learn=...)` learns them.
      guide: the family in which free globals are fitted, together (`vijax.guides`); None is
        `full_rank()`. Their posterior is named "free".
      order: names of globals and locals in the order in which coordinate ascent visits them; by
        default as given. Variables that share no term are updated together.
      joint: groups of discrete locals, by name, that q keeps joint (generalised mean field): exact,
        at the price of an energy for each of their joint values. A group becomes one categorical,
        named "z1, z2" after its members; the value of the last member runs fastest:
        `.probs.reshape(K1, K2)` is its table.
      plates: names of locals whose entries, along the first axis, depend on each other: the block
        of each node of a graph, the pixels of an image. Every term must be linear in each entry.
        Entries are independent under q. E-steps visit them one after the other, so that the bound
        never falls, at the price of a gradient of the energy for each. Start them at different
        values: equal ones may stay equal.
      start: a function from a group to the start of E-steps, as families with the names and shapes
        of `locals`; None takes the templates. `vijax.init.implied` starts the globals from it too.
      init: the start of the posterior (`vijax.init`). By default the prior; if under the prior the
        conditionals of some locals do not depend on the data, as for exchangeable classes or
        factors about zero, `vijax.init.drawn` of these locals.
      estep: default E-step; `vijax.estep.mean_field()`, which is exact where no two locals are
          coupled.
      check_data: raises ValueError for impossible data; `vijax.fit` calls it once. Without it data
        must be finite wherever the energy needs finite numbers. Their shapes are compared with the
        example's in any case.
      score: (hyper, estimates, data, key) -> held-out score, for `Fit.score`.
      any_size: True if groups may have other sizes than the example along all their axes, though no
        local has these sizes (tables that are padded to some number of rows, say).
      prior_as_point: True keeps the priors of the globals, a `Product`, among the model's points,
        by the name "prior". Then `vijax.fit(..., hyper={"prior": ...})` fits with other priors
        without compiling again.
      sample: (values of globals and locals by name, group, key) -> a group drawn given these
        values, for `Fit.predictive`: it keeps the inputs of the group and replaces its
        observations.
      sample_locals: (values of the globals by name, group, key) -> values of the locals by name,
        drawn given the globals; needed beside `sample` if the model has locals.
      generative: both of these for all groups at once (`vijax.contract.queries.Generative`).

    Returns:
      A `Model`, for every algorithm.

    Raises:
      ValueError: a name that stands for two things; a guide without free globals; an improper
        family; an energy that is not a scalar, not multilinear or not finite, or that reads an
        unknown name; an `order` that is not a permutation of the names; a `joint` group with a
        local that is not discrete; later, data unlike the example.

    A Gaussian mixture, y ~ N(mu_z, 1):

    >>> import vijax as vi
    >>> def energy(s, y):
    ...     fit = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2 - 0.5 * jnp.log(2 * jnp.pi)
    ...     return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)
    >>> mixture = energy_model(
    ...     globals={"mu": vi.Normal.from_mean_variance(jnp.array([-1.0, 1.0]), 10.0),
    ...              "weights": vi.Dirichlet.from_concentration([1.0, 1.0])},
    ...     locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
    ...     energy=energy, example=0.0)
    >>> fit = vi.fit(vi.cavi(mixture), jnp.array([-3.0, -2.0, 4.0]), num_steps=20, key=jax.random.key(0))
    >>> print(fit.posterior["mu"].mean().round(1), fit.posterior["weights"].concentration.round(1))
    [-2.4  3.7] [3. 2.]
    """
    check_points(hyper or {}, points or {})
    hyper = {**(hyper or {}), **(points or {})}
    globals, free = _split(globals, hyper, guide or full_rank())
    local = _local_families(locals or {})
    prior, references = _prior(globals, hyper, free is not None)
    fn = _with_hyper(energy, "energy", hyper)
    count = _with_hyper(impossible, "impossible", hyper)
    fixed: Callable[[Any], Any] = lambda fn: fn
    if free is not None:
        fixed = free.bind_random_values

    values: Hyper = hyper

    def read(group: PyTree) -> Any:
        stats = mean_statistics({**prior(values), **local(group)})
        terms = [fixed(term)(stats, group, values) for term in (fn, count) if term is not None]
        return terms, start and start(group)

    kinds = array_kinds(example, read)
    data = jax.tree.map(to_device, cast(kinds, jax.tree.map(as_array, example)))
    examples = cast(kinds, values_like(example))
    check_families(prior(hyper), local(data))
    check_free(() if free is None else free.variables.names, guide, prior(hyper), local(data))
    check_plates(plates, local(data), joint)
    if joint:
        count = count and keep_joint(count, local, joint, data)[0]
        fn, local = keep_joint(fn, local, joint, data)
    prior_fn = _prior_fn(prior_energy, references, bool(hyper), free)

    # Blocks, and a check of the terms unless an energy with equal functions passed it before.
    terms = (fixed(fn), fixed(count), fixed(prior_fn))
    key_of_functions = _key_of_checks(*terms, prior(hyper), local(data), data, hyper)
    key_of_checks = (key_of_functions, tuple(order or ()), tuple(plates))
    verified = _VERIFIED.get(key_of_checks) if free is None else None
    if verified is not None:
        blocks = verified.global_blocks, verified.local_blocks
    else:
        blocks = find_blocks(
            *terms, prior(hyper), local(data), data, examples, hyper, order, plates
        )
    if free is not None:
        fn, count, prior_fn, prior, blocks = _with_free(free, fn, count, prior_fn, prior, blocks)
    shapes = Shapes(array_shapes(data), array_shapes(zero_stats(prior(hyper))))
    if prior_as_point:
        has_no_prior = "prior" not in hyper
        require(has_no_prior, "prior_as_point", "no point of yours named prior", sorted(hyper))
        hyper, prior = {**hyper, "prior": prior(hyper)}, lambda hyper: hyper["prior"]

    spec = Energy(
        fn, count, prior, prior_fn, local, shapes, *blocks, tuple(plates), start, any_size
    )
    if init is None and free is None and local(data):
        blind = None
        if verified is not None and verified.start is start:
            blind = verified.blind
        if blind is None:
            blind = blind_locals(spec, hyper, examples)
        spec = dataclasses.replace(spec, blind=blind)
    _VERIFIED[key_of_checks] = spec

    if init is None:
        init = starts.drawn(spec.blind) if spec.blind else starts.prior()
    _check_sample(sample, sample_locals, has_locals=bool(local(data)))

    def check(data: PyTree) -> None:
        if check_data is not None:
            check_data(data)
        spec.check_groups(data, hyper)
        if check_data is None:
            spec.check_values(data, hyper)

    names_of_points = [*(points or {})]
    if prior_as_point:
        names_of_points.append("prior")
    return _to_model(
        spec,
        hyper,
        free,
        init=_full_start(init, free),
        estep=estep or mean_field(),
        form=DataForm(check, jax.tree.unflatten(jax.tree.structure(example), kinds)),
        constraints=dict.fromkeys(names_of_points, real()),
        queries=answers(
            generative or user_generative(sample, sample_locals, check), score=score, energy=spec
        ),
    )


def _local_families(locals: Any) -> Callable[[PyTree], dict[str, Family]]:
    """group -> its local families."""
    return lambda group: dict(locals(group) if callable(locals) else locals)


def _check_sample(sample: Any, sample_locals: Any, has_locals: bool) -> None:
    """Raises ValueError unless locals can be drawn exactly where the model has some."""
    remedy = "Fresh locals of new groups are drawn by it."
    ok = sample is None or (sample_locals is None) == (not has_locals)
    expected = "a function, of a model with locals alone"
    require(ok, "sample_locals", expected, sample_locals, remedy)


def _to_model(
    spec: Energy,
    hyper: Hyper,
    free: FreePart | None,
    init: starts.Init,
    estep: Any,
    form: DataForm,
    constraints: dict[str, Any],
    queries: Mapping[str, Any],
) -> Model:
    """The model of a checked energy."""
    prior_fn = spec.prior_fn
    global_elbo = None if prior_fn is None else lambda h, stats: prior_fn(stats, h)
    start_locals = None
    if spec.has_coupled_locals:
        start_locals = lambda h, batch: initial_locals(spec, batch)
    return Model(
        hyper=hyper,
        prior=spec.prior,
        local_elbo=lambda h, stats, batch, key, estep: local_elbo(
            spec, h, stats, batch, key, estep
        ),
        init=lambda h, key, p, batch: init(key, starts.Context(spec, h, p, batch)),
        estep=estep,
        global_elbo=global_elbo,
        blocks=spec.global_blocks,
        locals=LocalsPlan(
            start_locals,
            carried=spec.has_coupled_locals,
            solved_by=OfConditionals,
            is_linear=free is None,
        ),
        form=form,
        constraints=constraints,
        free=free,
        queries=queries,
    )


_VERIFIED: weakref.WeakValueDictionary[Hashable, Energy] = weakref.WeakValueDictionary()
"""Energies that passed the checks. Energies of the same functions with other hyperparameters or
priors are not checked again."""


def _key_of_checks(*arguments: Any) -> Hashable:
    """A key of the functions by structure, and of all other arguments by their shapes; a fresh key
    for functions that cannot be compared."""
    functions = [x for x in arguments if callable(x)]
    arrays = [x for x in arguments if not callable(x)]
    try:
        shapes = map(np.shape, jax.tree.leaves(arrays))
        return structure_key([functions, jax.tree.structure(arrays), *shapes])
    except (NotComparableError, TypeError, ValueError):
        return object()


def _split(globals: Any, hyper: Hyper, guide: Guide) -> tuple[Any, FreePart | None]:
    """The conjugate globals, or a function from `hyper` to them; and the free globals."""
    if not callable(globals):
        return split(globals, guide)
    _, free = split(globals(hyper), guide)
    if free is None:
        return globals, None
    return lambda hyper: split(globals(hyper), guide)[0], free


def _with_free(
    free: FreePart,
    fn: Any,
    count: Any,
    prior_fn: Any,
    prior: Callable[[Hyper], Product],
    blocks: Any,
) -> tuple[Any, ...]:
    """The functions, prior and blocks with the statistics of the free coordinates included."""
    prior_terms = free.reads(prior_fn)

    def terms(stats: Stats, hyper: Hyper) -> Float[Array, ""]:
        free_prior = free.log_prior(stats)
        if prior_terms is None:
            return free_prior
        return free_prior + prior_terms(stats, hyper)

    global_blocks, local_blocks = blocks
    extended_prior = lambda hyper: Product({**prior(hyper), Z: free.family()})
    extended_blocks = ((*global_blocks, (Z,)), local_blocks)
    return free.reads(fn), free.reads(count), terms, extended_prior, extended_blocks


def _full_start(init: starts.Init, free: FreePart | None) -> starts.Init:
    """The start, including the start of the free coordinates."""
    if free is None:
        return init
    start_free = lambda key: free.family(jax.random.fold_in(key, 1))
    return lambda key, context: init(key, context).replace({Z: start_free(key)})


def model_energy(model: Model) -> Energy:
    """The energy of a model; ValueError if the model has a bound of its own."""
    has_energy = "energy" in model.queries
    require(
        has_energy, "model", "one made by vijax.energy_model", "a model with a bound of its own"
    )
    return model.queries["energy"]


def local_elbo(
    spec: Energy, hyper: Hyper, stats: Stats, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """The bound of each group, with its locals found by the E-step and held constant."""
    spec.check_groups(batch.data, hyper)
    size = jax.tree.leaves(batch.data)[0].shape[0]
    weights = jnp.ones(size)
    data = jax.tree.map(jnp.asarray, batch.data)
    if batch.weights is not None:
        weights = jnp.asarray(batch.weights, jnp.result_type(float))
        data = fill_padding(data, weights)
    batch = batch._replace(data=data)
    start = batch.local
    if start is None:
        start = initial_locals(spec, batch)
    groups = (batch.data, start, jax.random.split(key, size))
    bound: Callable[..., Any] = _independent_locals
    if spec.has_coupled_locals:
        bound = _coupled_locals
    bound_of_group = lambda shared, group: bound(spec, *shared, *group, estep)

    def chunk_bound(shared: tuple[Hyper, Stats], chunk: PyTree) -> tuple[Float[Array, ""], PyTree]:
        weights, groups = chunk
        per_group, local = jax.vmap(lambda group: bound_of_group(shared, group))(groups)
        return weighted_sum(weights, per_group), (per_group, local)

    shared = dict(hyper), dict(stats)
    chunk_size = groups_per_chunk(bound_of_group, shared, jax.tree.map(lambda x: x[0], groups))
    if size <= chunk_size:
        total, aux = chunk_bound(shared, (weights, groups))
    else:
        chunks = (
            split_chunks(weights, chunk_size),
            split_chunks(groups, chunk_size, repeat_last=True),
        )
        total, aux = sum_over_chunks(chunk_bound, shared, chunks)
        aux = merge_chunks(aux, size)
    per_group, local = jax.lax.stop_gradient(aux)
    return LocalElbo(total, jnp.sum(weights), per_group, local)


def _independent_locals(
    spec: Energy,
    hyper: Hyper,
    stats: Stats,
    group: PyTree,
    start: Any,
    key: PRNGKeyArray,
    estep: Any,
) -> tuple[Float[Array, ""], Any]:
    """Bound of one group whose energy is affine in all its locals together, E = E_0 + <l, t(z)>.
    One evaluation gives E_0 and l, and both are differentiated, so that nothing is computed
    twice."""
    templates = spec.locals(group)
    energy, *count = spec.affine(stats, group, hyper, templates)
    fixed = jax.lax.stop_gradient([energy.slopes, *(c.slopes for c in count)])
    exact = spec.members(templates, fixed[0], fixed[1] if count else None)
    problem = Conditionals(start, lambda block, local: exact, spec.local_blocks)
    inferred = jax.lax.stop_gradient(estep.conditionals(problem, key))
    means = jax.tree.map(lambda t: jnp.mean(t, 0), inferred.states)
    bound = energy.evaluate(means) + inferred.gap
    return sum((PENALTY * c.evaluate(means) for c in count), bound), inferred.factors


def zero_stats(families: Mapping[str, Family]) -> dict[str, Any]:
    """Statistics of zero, at which an affine energy is its constant; only shapes are computed."""
    return zeros(jax.eval_shape(lambda: mean_statistics(families)))


def _coupled_locals(
    spec: Energy,
    hyper: Hyper,
    stats: Stats,
    group: PyTree,
    start: Any,
    key: PRNGKeyArray,
    estep: Any,
) -> tuple[Float[Array, ""], Any]:
    """Bound of one group whose locals depend on each other: the mean of E over the states that the
    E-step found."""
    fixed_hyper, fixed_stats = jax.lax.stop_gradient((dict(hyper), dict(stats)))
    conditionals = lambda block, local: spec.conditionals(
        block, {**fixed_stats, **local}, group, fixed_hyper
    )
    problem = Conditionals(start, conditionals, spec.local_blocks, spec.plates)
    inferred = jax.lax.stop_gradient(estep.conditionals(problem, key))
    energies = jax.vmap(lambda local: spec.fn({**stats, **local}, group, hyper))(inferred.states)
    return jnp.mean(energies) + inferred.gap, inferred.factors


def initial_locals(spec: Energy, batch: Minibatch) -> dict[str, Family]:
    """The start of the E-step of every group."""
    start = spec.start or spec.locals
    return jax.vmap(lambda group: dict(start(group)), out_axes=0)(batch.data)


def _with_hyper(fn: EnergyFn | None, argument: str, hyper: Hyper) -> Any:
    """The function with arguments (stats, group, hyper), also if it takes no hyperparameters."""
    if fn is None:
        return None
    read = readable(fn, argument)
    if hyper:
        return read
    return lambda s, y, h: read(s, y)


def _prior(
    globals: Any, hyper: Hyper, has_free: bool
) -> tuple[Callable[[Hyper], Product], dict[str, Family]]:
    """hyper -> the priors, in which hierarchical globals have their templates as references; and
    these templates."""
    at_hyper = globals(hyper) if callable(globals) else globals
    has_globals = bool(at_hyper) or has_free
    require(has_globals, "globals", "conjugate families or free variables by name", "none")
    templates = lambda priors: {
        n: p.template if isinstance(p, Conditional) else p for n, p in priors.items()
    }
    prior: Callable[[Hyper], Product] = PriorFunctions.from_priors(templates(at_hyper))
    if callable(globals):
        prior = lambda hyper: PriorFunctions.from_priors(templates(globals(hyper)))(hyper)
    require_proper("globals", prior(hyper))
    return prior, {n: p.template for n, p in at_hyper.items() if isinstance(p, Conditional)}


def _prior_fn(
    prior_energy: EnergyFn | None,
    references: dict[str, Family],
    takes_hyper: bool,
    free: FreePart | None,
) -> Callable[[Stats, Hyper], Float[Array, ""]] | None:
    """The terms of globals alone. Everywhere else a hierarchical global has its reference as prior,
    so that penalty and retraction have a proper prior; here the reference is subtracted, so that
    the sum is exact."""
    if (prior_energy is None) != (not references) and (prior_energy is None or free is None):
        raise ValueError(
            "prior_energy: expected it together with vijax.conditional globals, got prior_energy "
            f"{prior_energy} and "
            f"conditional globals {sorted(references)}."
        )
    if prior_energy is None:
        return None
    read = readable(prior_energy, "prior_energy")

    def terms(stats: Stats, hyper: Hyper) -> Float[Array, ""]:
        energy = read(stats, hyper) if takes_hyper else read(stats)
        reference = [
            jnp.sum(p.dot(stats[name]) - p.log_normalizer()) for name, p in references.items()
        ]
        return energy - sum(reference, jnp.zeros(()))

    return terms
