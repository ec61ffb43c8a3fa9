"""Models as energies: the log joint written once, multilinearly in the sufficient statistics of
every variable.

For globals beta with priors, and for each group n of observations y_n with locals z_n, let

    log p(y_n, z_n | beta) = E(t(beta), t(z_n), y_n) + log h(z_n),

E linear in the statistics of each variable separately. Then the complete conditional of a node is
the member of its family whose natural parameter is the *gradient* of the energy in that node's
statistics, and everything follows with no derivation: coordinate ascent (that gradient at mean
statistics), Gibbs sampling (at statistics of draws), the bound, and through it every algorithm of
`vijax.algorithms` (Blei, Kucukelbir and McAuliffe 2017, eq. 18, 38 and 41; Hoffman and Blei 2015,
section 2.6).

With locals q(z; l), l = grad_{t(z)} E, the bound is  E(s, mu) + sum_z (A(l) - <l, mu>), log h and
log g included: at the exact conditional it is log p(y_n | beta) itself.
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
from vijax.contract.queries import Generative, answers, given_by_user
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
    check_finite,
    check_groups,
    shapes,
    values_like,
)
from vijax.models.energies.free_part import FreePart, split
from vijax.tree import register, to_device
from vijax.xla.by_value import NotComparableError, cache_while_used, structure_key
from vijax.xla.chunks import groups_per_chunk, merge_chunks, split_chunks, sum_over_chunks

EnergyFn = Callable[..., Float[Array, ""]]
Stats = Mapping[str, Any]


class Shapes(NamedTuple):
    """Shapes for which an energy was checked: of one group, and of the statistics of the
    globals."""

    example: PyTree
    stats: PyTree


@register
@dataclasses.dataclass(frozen=True)
class Conditional:
    """A global in a hierarchy; see `conditional`."""

    template: Family


def conditional(template: Family) -> Conditional:
    """Marks a global whose density given other globals is a term of `prior_energy` (a hierarchy),
    base measure included. `template`, a proper member of its family, gives its shape and the start
    of its posterior."""
    require(
        isinstance(template, Family),
        "template",
        "a family (vijax.families)",
        type(template).__name__,
    )
    require_proper("template", template)
    return Conditional(template)


@dataclasses.dataclass(frozen=True, eq=False)
class Energy:
    """The arguments of `energy_model`, checked.

    Attributes:
      possible: (stats, group, hyper) -> scalar, the energy of possible events.
      impossible: (stats, group, hyper) -> scalar, the number of impossible events; None where there
          are none.
      prior: hyper -> prior of the globals; for hierarchical ones a reference that `prior_fn` takes
          out again.
      prior_fn: (stats, hyper) -> scalar, terms of globals alone; None where there are none.
      locals: group -> templates of its local families, by name.
      shown: shapes of the example and of the globals' statistics.
      global_blocks, local_blocks: names that may be updated at once, in order.
      plates: locals whose entries are coupled among themselves.
      start: group -> the start of E-steps, by name of local; None: the templates.
      any_size: groups may have other sizes than the example.
      blind: names of locals that see nothing of the data under the prior of the globals; None: it
          was not asked.
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
        """True where the E-step iterates."""
        return len(self.local_blocks) > 1 or bool(self.plates)

    def conditionals(
        self, block: Sequence[str], stats: Stats, group: PyTree, hyper: Hyper
    ) -> dict[str, Family]:
        """The complete conditionals of the locals named, given the statistics of all other
        variables."""
        part = {name: stats[name] for name in block}
        slopes = lambda f: jax.grad(lambda part: f({**stats, **part}, group, hyper))(part)
        counts = None if self.impossible is None else slopes(self.impossible)
        templates = self.locals(group)
        return self.members(
            {name: templates[name] for name in block}, slopes(self.possible), counts
        )

    def fn(self, stats: Stats, group: PyTree, hyper: Hyper) -> Float[Array, ""]:
        """The energy at given statistics, minus `PENALTY` for each impossible event."""
        energy = self.possible(stats, group, hyper)
        return (
            energy
            if self.impossible is None
            else energy + PENALTY * self.impossible(stats, group, hyper)
        )

    def affine(
        self, stats: Stats, group: PyTree, hyper: Hyper, templates: Mapping[str, Family]
    ) -> list[Affine]:
        """The energy, and the number of impossible events where there are any, as functions of
        locals that are not coupled; `stats` are those of all other variables."""
        functions = [self.possible] if self.impossible is None else [self.possible, self.impossible]
        at = lambda f: jax.value_and_grad(lambda local: f({**stats, **local}, group, hyper))(
            zero_stats(templates)
        )
        return [Affine(*at(f)) for f in functions]

    def members(
        self, templates: Mapping[str, Family], naturals: Stats, counts: Stats | None
    ) -> dict[str, Family]:
        """The families of these natural parameters, impossible values excluded."""
        if counts is None:
            return {name: q.with_naturals(naturals[name]) for name, q in templates.items()}
        return {name: penalise(q, naturals[name], counts[name]) for name, q in templates.items()}

    def check_groups(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError unless data are groups like the example; only shapes are read: data may
        be traced."""
        at = lambda group: self.fn(
            {**zeros(self.shapes.stats), **zero_stats(self.locals(group))}, group, hyper
        )
        check_groups(self.shapes.example, data, at, self.locals, self.any_size)

    def check_values(self, data: PyTree, hyper: Hyper) -> None:
        """Raises ValueError at data that are not finite where the energy is not finite either."""
        at = lambda group: {
            **self.prior(hyper).expected_stats(),
            **mean_statistics(self.locals(group)),
        }
        check_finite(data, lambda group: bool(jnp.isfinite(self.fn(at(group), group, hyper))))


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
        function from `hyper` to all of them. `vijax.conditional(template)` for one whose prior
        depends on other globals; `vijax.free(shape, support, log_prior)` for one on which the
        energy may depend in any differentiable way: the weights of a network, a length scale.
        `stats[name]` is then its *value*.
      energy: (stats, group) -> log p(y_n, z_n | beta) less the base measures of z_n, a scalar:
        `stats[name]` are the sufficient statistics of each global and local, `group` the data of
        one group. Write it for one group: vijax batches it. The docstring of each family states its
        base measure: a gamma local has `shape * s["z"].log`, not `(shape - 1) * s["z"].log`.
        `vijax.check_energy` compares it with the log density of a textbook. With `hyper`, it is
        called with (stats, group, hyper). Never -inf: see `impossible`.
      example: data of one group, for their shapes and types. Their values do not matter: vijax
        checks that the energy is multilinear, and finds the variables that it couples, at the
        example and at random values like it. Data must be of its shapes; where `locals` have as
        many entries as a group has steps, groups may be longer or shorter. Booleans are masks.
        Floats and integers come to the energy as floats, so that squares do not wrap; integers that
        it uses as indices (`table[y]`) come as int32.
      impossible: structural zeros: the number of impossible events of a configuration, as a
        function of the same arguments as `energy` and multilinear like it. It has probability zero
        where that is positive, and `energy` may be any finite number there: for transitions that
        only some pairs of states allow, `jnp.where(allowed, log_p, 0.0)` in the energy, and `lambda
        s, y: jnp.sum(jnp.where(allowed, 0.0, s["z"].transition))` here. Add up products of
        statistics, none of them negative, so that rounding leaves no count where there is none.
        Where no value of a local is possible given the others, mean field needs a possible start,
        or `joint` locals. A Dirichlet over some classes only has concentrations of 1e-20 for the
        others.
      locals: the families of the group's local variables by name; iterative E-steps start at the
        values of their natural parameters. Their whole density, less the base measure, belongs to
        the energy: for a local of known law q it is `q.energy_term(s["z"])`. Or a function from a
        group to them.
      prior_energy: (stats) -> log density of the `conditional` globals given the others, and of
        free globals that have no `log_prior` or whose prior depends on others (`stats[name]` is the
        value); with `hyper`, (stats, hyper).
      hyper: positive hyperparameters by name, which `compose(learn=...)` may learn.
      points: trees of any real numbers by name, such as the weights of a network, for which only a
        point is sought. The energy reads them beside `hyper`, and `compose(learn=...)` learns them.
      guide: the family in which free globals are fitted, together (`vijax.guides`); None is
        `full_rank()`. Their posterior is named "free".
      order: names of globals and locals in the order in which coordinate ascent visits them; by
        default as given. Variables that share no term are updated together.
      joint: groups of discrete locals, by name, that q keeps joint (generalised mean field): exact,
        at the price of an energy for each of their joint values. A group is from then on one
        categorical, named "z1, z2" after its members, the last one's value running fastest:
        `.probs.reshape(K1, K2)` is its table.
      plates: names of locals whose entries, along the first axis, depend on each other: the block
        of each node of a graph, the pixels of an image. Every term must be linear in each entry.
        Entries are independent under q, and E-steps visit them one after the other, at the price of
        a gradient of the energy for each: the bound never falls. Start them at different values:
        from equal ones they may never differ.
      start: a function from a group to the start of E-steps, families of the names and shapes of
        `locals`, if it is not the templates. `vijax.init.implied` starts the globals there too.
      init: the start of the posterior (`vijax.init`). By default the prior; or, where locals would
        see nothing of the data there, as classes that can be exchanged or factors about zero,
        `vijax.init.drawn` of these locals.
      estep: default E-step; `vijax.estep.mean_field()`, which is exact where no two locals are
          coupled.
      check_data: raises ValueError on impossible data; `vijax.fit` calls it once. Without it data
        must be finite where the energy needs them to be. Their shapes are compared with the
        example's in any case.
      score: (hyper, estimates, data, key) -> held-out score, for `Fit.score`.
      any_size: groups may have other sizes than the example along all their axes (rows of a table,
        say, that are padded to some number), though no local has these sizes.
      prior_as_point: keep the priors of the globals, a `Product`, among the model's points, by the
        name "prior". Then `vijax.fit(..., hyper={"prior": ...})` fits others without compiling
        anything again.
      sample: (values of globals and locals by name, group, key) -> a group drawn given these
          values, for
      `Fit.predictive`: the inputs of the given group are kept, its observations replaced.
      sample_locals: (values of the globals by name, group, key) -> values of the locals by name,
        drawn given them; needed beside `sample` where the model has locals.
      generative: both of these for all groups at once (`vijax.contract.queries.Generative`).

    Returns:
      A `Model`, for every algorithm.

    Raises:
      ValueError: a name that stands for two things, a guide without free globals, a family that is
        improper, an energy that is no scalar, not multilinear, not finite, or that reads an unknown
        name, an `order` that is not a permutation of the names, a `joint` group that is not of
        discrete locals; later, data unlike the example.

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
    hyper, given = {**(hyper or {}), **(points or {})}, locals or {}
    globals, free = _split(globals, hyper, guide or full_rank())
    local = lambda group: dict(given(group) if callable(given) else given)
    prior, references = _prior(globals, hyper, free is not None)
    fn, count = _with_hyper(energy, "energy", hyper), _with_hyper(impossible, "impossible", hyper)
    fixed: Callable[[Any], Any] = free.bind_random_values if free is not None else lambda fn: fn

    values: Hyper = hyper

    def read(group: PyTree) -> Any:
        stats = mean_statistics({**prior(values), **local(group)})
        return [
            fixed(term)(stats, group, values) for term in (fn, count) if term is not None
        ], start and start(group)

    kinds = array_kinds(example, read)
    data, others = (cast(kinds, x) for x in (jax.tree.map(as_array, example), values_like(example)))
    data = jax.tree.map(to_device, data)
    check_families(prior(hyper), local(data))
    check_free(() if free is None else free.variables.names, guide, prior(hyper), local(data))
    check_plates(plates, local(data), joint)
    if joint:
        count = count and keep_joint(count, local, joint, data)[0]
        fn, local = keep_joint(fn, local, joint, data)
    prior_fn = _prior_fn(prior_energy, references, bool(hyper), free)
    of_conjugate = (fixed(fn), fixed(count), fixed(prior_fn))
    found_before = _key_of_checks(*of_conjugate, prior(hyper), local(data), data, hyper)
    found_before = (found_before, tuple(order or ()), tuple(plates))
    alike = _VERIFIED.get(found_before) if free is None else None
    if alike is not None:
        blocks = alike.global_blocks, alike.local_blocks
    else:
        blocks = find_blocks(
            *of_conjugate, prior(hyper), local(data), data, others, hyper, order, plates
        )
    if free is not None:
        fn, count, prior_fn, prior, blocks = _with_free(free, fn, count, prior_fn, prior, blocks)
    shown = Shapes(shapes(data), shapes(zero_stats(prior(hyper))))
    if prior_as_point:
        require(
            "prior" not in hyper, "prior_as_point", "no point of yours named prior", sorted(hyper)
        )
        hyper, prior = {**hyper, "prior": prior(hyper)}, lambda hyper: hyper["prior"]
    spec = Energy(fn, count, prior, prior_fn, local, shown, *blocks, tuple(plates), start, any_size)
    if init is None and free is None and local(data):
        known = alike.blind if alike is not None and alike.start is start else None
        spec = dataclasses.replace(
            spec, blind=blind_locals(spec, hyper, others) if known is None else known
        )
    _VERIFIED[found_before] = spec
    begin = _full_start(init or (starts.drawn(spec.blind) if spec.blind else starts.prior()), free)
    remedy = "Fresh locals of new groups are drawn by it."
    both = sample is None or (sample_locals is None) == (not local(data))
    require(
        both, "sample_locals", "a function, of a model with locals alone", sample_locals, remedy
    )

    def check(data: PyTree) -> None:
        if check_data is not None:
            check_data(data)
        spec.check_groups(data, hyper)
        if check_data is None:
            spec.check_values(data, hyper)

    return Model(
        hyper=hyper,
        prior=prior,
        local_elbo=lambda h, stats, batch, key, estep: local_elbo(
            spec, h, stats, batch, key, estep
        ),
        init=lambda h, key, p, batch: begin(key, starts.Context(spec, h, p, batch)),
        estep=estep or mean_field(),
        global_elbo=None if prior_fn is None else lambda h, stats: prior_fn(stats, h),
        blocks=spec.global_blocks,
        locals=LocalsPlan(
            (lambda h, batch: initial_locals(spec, batch)) if spec.has_coupled_locals else None,
            carried=spec.has_coupled_locals,
            solved_by=OfConditionals,
            is_linear=free is None,
        ),
        form=DataForm(check, jax.tree.unflatten(jax.tree.structure(example), kinds)),
        constraints=dict.fromkeys(
            [*(points or {}), *(["prior"] if prior_as_point else [])], real()
        ),
        free=free,
        queries=answers(
            generative or given_by_user(sample, sample_locals, check), score=score, energy=spec
        ),
    )


_VERIFIED: weakref.WeakValueDictionary[Hashable, Energy] = weakref.WeakValueDictionary()
"""Energies whose functions were checked: those of other hyperparameters and priors need no check of
their own."""


def _key_of_checks(*of: Any) -> Hashable:
    """The functions by structure, and the shapes of all else."""
    arrays, others = (
        [x for x in of if callable(x) is is_function] for is_function in (False, True)
    )
    try:
        return structure_key(
            [others, jax.tree.structure(arrays), *map(np.shape, jax.tree.leaves(arrays))]
        )
    except (NotComparableError, TypeError, ValueError):
        return object()


def _split(globals: Any, hyper: Hyper, guide: Guide) -> tuple[Any, FreePart | None]:
    """The conjugate globals, as they were given, and the free globals."""
    if not callable(globals):
        return split(globals, guide)
    _, free = split(globals(hyper), guide)
    return (globals if free is None else lambda hyper: split(globals(hyper), guide)[0]), free


def _with_free(
    free: FreePart,
    fn: Any,
    count: Any,
    prior_fn: Any,
    prior: Callable[[Hyper], Product],
    blocks: Any,
) -> tuple[Any, ...]:
    """The functions as functions of statistics that include the free coordinates' own."""
    others = free.reads(prior_fn)

    def terms(stats: Stats, hyper: Hyper) -> Float[Array, ""]:
        own = free.log_prior(stats)
        return own if others is None else own + others(stats, hyper)

    extended = lambda hyper: Product({**prior(hyper), Z: free.family()})
    return free.reads(fn), free.reads(count), terms, extended, ((*blocks[0], (Z,)), blocks[1])


def _full_start(init: starts.Init, free: FreePart | None) -> starts.Init:
    """The start, including the start of the free coordinates."""
    if free is None:
        return init
    return lambda key, context: init(key, context).replace(
        {Z: free.family(jax.random.fold_in(key, 1))}
    )


def model_energy(model: Model) -> Energy:
    """The energy that a model was made from; ValueError where it has a bound of its own."""
    known = "energy" in model.queries
    require(known, "model", "one made by vijax.energy_model", "a model with a bound of its own")
    return model.queries["energy"]


def local_elbo(
    spec: Energy, hyper: Hyper, stats: Stats, batch: Minibatch, key: PRNGKeyArray, estep: Any
) -> LocalElbo:
    """The bound of each group, with its locals found by the E-step and held constant."""
    spec.check_groups(batch.data, hyper)
    size = jax.tree.leaves(batch.data)[0].shape[0]
    weights = (
        jnp.ones(size)
        if batch.weights is None
        else jnp.asarray(batch.weights, jnp.result_type(float))
    )
    data = jax.tree.map(jnp.asarray, batch.data)
    batch = batch._replace(data=data if batch.weights is None else fill_padding(data, weights))
    start = initial_locals(spec, batch) if batch.local is None else batch.local
    groups = (batch.data, start, jax.random.split(key, size))
    bound: Callable[..., Any] = _coupled_locals if spec.has_coupled_locals else _independent_locals
    one = lambda shared, group: bound(spec, *shared, *group, estep)

    def chunk_bound(shared: tuple[Hyper, Stats], chunk: PyTree) -> tuple[Float[Array, ""], PyTree]:
        weights, groups = chunk
        per_group, local = jax.vmap(lambda group: one(shared, group))(groups)
        return weighted_sum(weights, per_group), (per_group, local)

    shared = dict(hyper), dict(stats)
    most = groups_per_chunk(one, shared, jax.tree.map(lambda x: x[0], groups))
    if size <= most:
        total, aux = chunk_bound(shared, (weights, groups))
    else:
        chunks = split_chunks(weights, most), split_chunks(groups, most, repeat_last=True)
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
    """Bound of one group whose energy is affine in its locals together, E = E_0 + <l, t(z)>: one
    evaluation gives E_0 and l, and both are differentiated, so that nothing is computed twice."""
    templates = spec.locals(group)
    energy, *count = spec.affine(stats, group, hyper, templates)
    fixed = jax.lax.stop_gradient([energy.slopes, *(c.slopes for c in count)])
    exact = spec.members(templates, fixed[0], fixed[1] if count else None)
    problem = Conditionals(start, lambda block, local: exact, spec.local_blocks)
    inferred = jax.lax.stop_gradient(estep.conditionals(problem, key))
    means = jax.tree.map(lambda t: jnp.mean(t, 0), inferred.states)
    return sum(
        (PENALTY * c.evaluate(means) for c in count), energy.evaluate(means) + inferred.gap
    ), inferred.factors


def zero_stats(families: Mapping[str, Family]) -> dict[str, Any]:
    """Statistics of zero, where an affine energy is its constant; the families' own statistics are
    not computed."""
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
    E-step has found."""
    fixed_hyper, fixed_stats = jax.lax.stop_gradient((dict(hyper), dict(stats)))
    given = lambda block, local: spec.conditionals(
        block, {**fixed_stats, **local}, group, fixed_hyper
    )
    inferred = jax.lax.stop_gradient(
        estep.conditionals(Conditionals(start, given, spec.local_blocks, spec.plates), key)
    )
    energies = jax.vmap(lambda local: spec.fn({**stats, **local}, group, hyper))(inferred.states)
    return jnp.mean(energies) + inferred.gap, inferred.factors


def initial_locals(spec: Energy, batch: Minibatch) -> dict[str, Family]:
    """The start of the E-step of every group."""
    return jax.vmap(lambda group: dict((spec.start or spec.locals)(group)), out_axes=0)(batch.data)


def _with_hyper(fn: EnergyFn | None, argument: str, hyper: Hyper) -> Any:
    """The function with arguments (stats, group, hyper), whether there are hyperparameters or
    not."""
    if fn is None:
        return None
    read = readable(fn, argument)
    return read if hyper else (lambda s, y, h: read(s, y))


def _prior(
    globals: Any, hyper: Hyper, has_free: bool
) -> tuple[Callable[[Hyper], Product], dict[str, Family]]:
    """hyper -> the priors, with references in the place of the hierarchical ones."""
    given = globals(hyper) if callable(globals) else globals
    require(
        bool(given) or has_free, "globals", "conjugate families or free variables by name", "none"
    )
    templates = lambda given: {
        n: p.template if isinstance(p, Conditional) else p for n, p in given.items()
    }
    prior = (
        (lambda hyper: PriorFunctions.from_priors(templates(globals(hyper)))(hyper))
        if callable(globals)
        else PriorFunctions.from_priors(templates(given))
    )
    require_proper("globals", prior(hyper))
    return prior, {n: p.template for n, p in given.items() if isinstance(p, Conditional)}


def _prior_fn(
    prior_energy: EnergyFn | None,
    references: dict[str, Family],
    takes_hyper: bool,
    free: FreePart | None,
) -> Callable[[Stats, Hyper], Float[Array, ""]] | None:
    """The terms of globals alone. A hierarchical global has its reference as prior everywhere else,
    so that penalty and retraction know a proper prior; here the reference is taken out again: the
    sum is exact."""
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
        own = read(stats, hyper) if takes_hyper else read(stats)
        reference = [
            jnp.sum(p.dot(stats[name]) - p.log_normalizer()) for name, p in references.items()
        ]
        return own - sum(reference, jnp.zeros(()))

    return terms
