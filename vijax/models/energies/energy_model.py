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
from vijax.contract.batch import DataForm
from vijax.contract.intake import cast
from vijax.contract.model import Hyper, LocalsPlan, Model, PriorFunctions
from vijax.contract.queries import Generative, answers, user_generative
from vijax.families import Family, Product
from vijax.families.base import as_array
from vijax.families.construction import require_proper
from vijax.inference.estep import OfConditionals, mean_field
from vijax.inference.guides import Guide, Z, full_rank
from vijax.models.energies.blind import blind_locals
from vijax.models.energies.discrete import keep_joint
from vijax.models.energies.energy import (
    Energy,
    EnergyFn,
    Shapes,
    Stats,
    initial_locals,
    local_elbo,
    zero_stats,
)
from vijax.models.energies.energy_checks import (
    check_families,
    check_free,
    check_plates,
    check_points,
    find_blocks,
    mean_statistics,
    readable,
)
from vijax.models.energies.examples import array_kinds, array_shapes, values_like
from vijax.models.energies.free_part import FreePart, split
from vijax.tree import register, to_device
from vijax.xla.by_value import NotComparableError, cache_while_used, structure_key

LocalFamilies = Callable[[PyTree], dict[str, Family]]
Term = Callable[..., Float[Array, ""]]
Blocks = tuple[tuple[str, ...], ...]


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Structure:
    """The structure of an energy, for `energy_model(structure=)`: what its function does not say.

    Attributes:
      impossible: structural zeros: the number of impossible events of a configuration, as a
        function of the same arguments as `energy` and multilinear like it. A configuration with a
        positive number has probability zero, and `energy` may be any finite number at it. For
        transitions that only some pairs of states allow, take `jnp.where(allowed, log_p, 0.0)` in
        the energy, and `lambda s, y: jnp.sum(jnp.where(allowed, 0.0, s["z"].transition))` here. Add
        up products of nonnegative statistics, so that rounding does not make a count of zero
        positive. If a local has no possible value given the others, mean field needs a possible
        start, or `joint` locals. A Dirichlet over some of the classes has concentrations of 1e-20
        for the others.
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
      any_size: True if groups may have other sizes than the example along all their axes, though no
        local has these sizes (tables that are padded to some number of rows, say).

    >>> Structure(joint=[("z1", "z2")], order=("w", "z1, z2")).plates
    ()
    """

    impossible: EnergyFn | None = None
    guide: Guide | None = None
    order: Sequence[str] | None = None
    joint: Sequence[Sequence[str]] = ()
    plates: Sequence[str] = ()
    start: Callable[[PyTree], Mapping[str, Family]] | None = None
    any_size: bool = False


def energy_model(
    *,
    globals: Mapping[str, Any] | Callable[[Hyper], Mapping[str, Any]],
    energy: EnergyFn,
    example: PyTree,
    locals: Mapping[str, Family] | Callable[[PyTree], Mapping[str, Family]] | None = None,
    prior_energy: EnergyFn | None = None,
    hyper: Hyper | None = None,
    points: Mapping[str, PyTree] | None = None,
    init: starts.Init | None = None,
    estep: Any = None,
    sample: Callable[[Mapping[str, Any], PyTree, PRNGKeyArray], PyTree] | None = None,
    sample_locals: Callable[[Mapping[str, Any], PyTree, PRNGKeyArray], Mapping[str, Any]]
    | None = None,
    structure: Structure | None = None,
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
        called with (stats, group, hyper). Never -inf: see `Structure.impossible`.
      example: data of one group, for their shapes and types. Their values do not matter: vijax
        checks that the energy is multilinear, and finds the variables that it couples, at the
        example and at random values like it. Data must have its shapes; if `locals` have as many
        entries as a group has steps, groups may be longer or shorter. Booleans are masks. Floats
        and integers reach the energy as floats, so that squares do not wrap; integers that it uses
        as indices (`table[y]`) reach it as int32.
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
      init: the start of the posterior (`vijax.init`). By default the prior; if under the prior the
        conditionals of some locals do not depend on the data, as for exchangeable classes or
        factors about zero, `vijax.init.local_draws` of these locals.
      estep: default E-step; `vijax.estep.mean_field()`, which is exact where no two locals are
          coupled.
      sample: (values of globals and locals by name, group, key) -> a group drawn given these
        values, for `Fit.predictive`: it keeps the inputs of the group and replaces its
        observations.
      sample_locals: (values of the globals by name, group, key) -> values of the locals by name,
        drawn given the globals; needed beside `sample` if the model has locals.
      structure: what else is known of the variables: events that cannot be, locals that stay
        joint, the order of updates (`vijax.Structure`).

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
    >>> fit = vi.fit(vi.cavi(mixture), jnp.array([-3.0, -2.0, 4.0]), num_steps=20,
    ...              key=jax.random.key(0))
    >>> print(fit.posterior["mu"].mean().round(1), fit.posterior["weights"].concentration.round(1))
    [-2.4  3.7] [3. 2.]
    """
    require(
        structure is None or isinstance(structure, Structure),
        "structure",
        "None or a vijax.Structure",
        type(structure).__name__,
    )
    return ready_model(
        globals=globals,
        energy=energy,
        example=example,
        locals=locals,
        prior_energy=prior_energy,
        hyper=hyper,
        points=points,
        init=init,
        estep=estep,
        sample=sample,
        sample_locals=sample_locals,
        structure=structure or Structure(),
    )


@cache_while_used
def ready_model(
    *,
    globals: Mapping[str, Any] | Callable[[Hyper], Mapping[str, Any]],
    energy: EnergyFn,
    example: PyTree,
    locals: Mapping[str, Family] | Callable[[PyTree], Mapping[str, Family]] | None = None,
    prior_energy: EnergyFn | None = None,
    hyper: Hyper | None = None,
    points: Mapping[str, PyTree] | None = None,
    init: starts.Init | None = None,
    estep: Any = None,
    sample: Callable[..., PyTree] | None = None,
    sample_locals: Callable[..., Mapping[str, Any]] | None = None,
    structure: Structure = Structure(),
    check_data: Callable[[PyTree], None] | None = None,
    score: Callable[..., Any] | None = None,
    generative: Generative | None = None,
    prior_as_point: bool = False,
) -> Model:
    """`energy_model`, with what the ready models of `vijax.models` say beside it.

    Args:
      globals, energy, example, locals, prior_energy, hyper, points, init, estep, sample,
        sample_locals, structure: as in `energy_model`.
      check_data: raises ValueError for impossible data; `vijax.fit` calls it once. Without it data
        must be finite wherever the energy needs finite numbers. Their shapes are compared with the
        example's in any case.
      score: (hyper, estimates, data, key) -> held-out score, for `Fit.score`.
      generative: `sample` and `sample_locals` for all groups at once.
      prior_as_point: True keeps the priors of the globals, a `Product`, among the model's points,
        by the name "prior". Then `vijax.fit(..., hyper={"prior": ...})` fits with other priors
        without compiling again.
    """
    check_points(hyper or {}, points or {})
    hyper = {**(hyper or {}), **(points or {})}
    terms = _read_terms(globals, energy, locals, prior_energy, hyper, structure)
    start = structure.start
    kinds = array_kinds(example, terms.reader(hyper, start))
    group = jax.tree.map(to_device, cast(kinds, jax.tree.map(as_array, example)))
    groups = cast(kinds, values_like(example))
    _check_names(terms, group, hyper, structure)
    terms = terms.with_joint_locals(structure.joint, group)

    key_of_checks = _key_of_checks(terms, group, hyper, structure)
    verified = _VERIFIED.get(key_of_checks) if terms.free is None else None
    blocks = _blocks(terms, group, groups, hyper, structure, verified)
    if terms.free is not None:
        terms, blocks = terms.with_free_coordinates(blocks)
    shapes = Shapes(array_shapes(group), array_shapes(zero_stats(terms.prior(hyper))))
    names_of_points = [*(points or {})]
    if prior_as_point:
        has_no_prior = "prior" not in hyper
        require(has_no_prior, "prior_as_point", "no point of yours named prior", sorted(hyper))
        hyper = {**hyper, "prior": terms.prior(hyper)}
        terms = terms._replace(prior=lambda hyper: hyper["prior"])
        names_of_points.append("prior")

    spec = Energy(
        terms.energy,
        terms.impossible,
        terms.prior,
        terms.prior_energy,
        terms.locals,
        shapes,
        *blocks,
        tuple(structure.plates),
        start,
        structure.any_size,
    )
    if init is None and terms.free is None and terms.locals(group):
        spec = _find_blind_locals(spec, hyper, groups, verified)
    _VERIFIED[key_of_checks] = spec
    if init is None:
        init = starts.local_draws(spec.blind) if spec.blind else starts.prior()
    _check_sample(sample, sample_locals, has_locals=bool(terms.locals(group)))
    check = _data_check(spec, hyper, check_data)
    generative = generative or user_generative(sample, sample_locals, check)
    return _to_model(
        spec,
        hyper,
        terms.free,
        init=_full_start(init, terms.free),
        estep=estep or mean_field(),
        form=DataForm(check, jax.tree.unflatten(jax.tree.structure(example), kinds)),
        constraints=dict.fromkeys(names_of_points, real()),
        queries=answers(generative, score=score, energy=spec),
    )


class _Terms(NamedTuple):
    """The terms of a log joint as functions, with the families of its variables.

    Attributes:
      energy: (stats, group, hyper) -> the energy of one group.
      impossible: (stats, group, hyper) -> number of impossible events, or None.
      prior_energy: (stats, hyper) -> terms of globals alone, or None.
      prior: hyper -> priors of the globals that have a family.
      locals: group -> templates of its locals.
      free: the free globals, or None.
    """

    energy: Term
    impossible: Term | None
    prior_energy: Term | None
    prior: Callable[[Hyper], Product]
    locals: LocalFamilies
    free: FreePart | None

    def family_terms(self) -> tuple[Any, Any, Any]:
        """The terms in the statistics of families alone: free globals have random values."""
        fixed: Callable[[Any], Any] = lambda term: term
        if self.free is not None:
            fixed = self.free.bind_random_values
        return fixed(self.energy), fixed(self.impossible), fixed(self.prior_energy)

    def reader(
        self, hyper: Hyper, start: Callable[[PyTree], Any] | None
    ) -> Callable[[PyTree], Any]:
        """A function that reads a group as the terms and the start of E-steps do."""
        energy, impossible, _ = self.family_terms()

        def read(group: PyTree) -> Any:
            stats = mean_statistics({**self.prior(hyper), **self.locals(group)})
            values = [
                term(stats, group, hyper) for term in (energy, impossible) if term is not None
            ]
            return values, start and start(group)

        return read

    def with_joint_locals(self, joint: Sequence[Sequence[str]], group: PyTree) -> _Terms:
        """The terms in the statistics of joint locals."""
        if not joint:
            return self
        energy, locals = keep_joint(self.energy, self.locals, joint, group)
        impossible = self.impossible
        if impossible is not None:
            impossible, _ = keep_joint(impossible, self.locals, joint, group)
        return self._replace(energy=energy, impossible=impossible, locals=locals)

    def with_free_coordinates(
        self, blocks: tuple[Blocks, Blocks]
    ) -> tuple[_Terms, tuple[Blocks, Blocks]]:
        """The terms and blocks with the statistics of the free coordinates included."""
        free, prior = self.free, self.prior
        assert free is not None
        prior_terms = free.reads(self.prior_energy)

        def prior_energy(stats: Stats, hyper: Hyper) -> Float[Array, ""]:
            free_prior = free.log_prior(stats)
            if prior_terms is None:
                return free_prior
            return free_prior + prior_terms(stats, hyper)

        terms = self._replace(
            energy=free.reads(self.energy),
            impossible=free.reads(self.impossible),
            prior_energy=prior_energy,
            prior=lambda hyper: Product({**prior(hyper), Z: free.family()}),
        )
        global_blocks, local_blocks = blocks
        return terms, ((*global_blocks, (Z,)), local_blocks)


def _read_terms(
    globals: Any,
    energy: EnergyFn,
    locals: Any,
    prior_energy: EnergyFn | None,
    hyper: Hyper,
    structure: Structure,
) -> _Terms:
    """The terms of the arguments of `energy_model`."""
    families, free = _split(globals, hyper, structure.guide or full_rank())
    prior, references = _prior(families, hyper, free is not None)
    return _Terms(
        energy=_with_hyper(energy, "energy", hyper),
        impossible=_with_hyper(structure.impossible, "impossible", hyper),
        prior_energy=_prior_fn(prior_energy, references, bool(hyper), free),
        prior=prior,
        locals=_local_families(locals or {}),
        free=free,
    )


def _check_names(terms: _Terms, group: PyTree, hyper: Hyper, structure: Structure) -> None:
    """Raises ValueError for families, names or plates that do not fit together."""
    prior, local = terms.prior(hyper), terms.locals(group)
    free_names = () if terms.free is None else terms.free.variables.names
    check_families(prior, local)
    check_free(free_names, structure.guide, prior, local)
    check_plates(structure.plates, local, structure.joint)


def _blocks(
    terms: _Terms,
    group: PyTree,
    groups: PyTree,
    hyper: Hyper,
    structure: Structure,
    verified: Energy | None,
) -> tuple[Blocks, Blocks]:
    """The variables that can be updated together. Finding them checks the terms, unless an energy
    with equal functions passed before."""
    if verified is not None:
        return verified.global_blocks, verified.local_blocks
    return find_blocks(
        *terms.family_terms(),
        terms.prior(hyper),
        terms.locals(group),
        group,
        groups,
        hyper,
        structure.order,
        structure.plates,
    )


def _find_blind_locals(
    spec: Energy, hyper: Hyper, groups: PyTree, verified: Energy | None
) -> Energy:
    """The energy, with the locals named whose conditionals under the prior ignore the data."""
    blind = None
    if verified is not None and verified.start is spec.start:
        blind = verified.blind
    if blind is None:
        blind = blind_locals(spec, hyper, groups)
    return dataclasses.replace(spec, blind=blind)


def _data_check(
    spec: Energy, hyper: Hyper, check_data: Callable[[PyTree], None] | None
) -> Callable[[PyTree], None]:
    """A function that raises ValueError for data that the model does not have."""

    def check(data: PyTree) -> None:
        if check_data is not None:
            check_data(data)
        spec.check_groups(data, hyper)
        if check_data is None:
            spec.check_values(data, hyper)

    return check


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


def _key_of_checks(terms: _Terms, group: PyTree, hyper: Hyper, structure: Structure) -> Hashable:
    """A key of the functions by structure, and of all other arguments by their shapes; a fresh key
    for functions that cannot be compared."""
    functions = [term for term in terms.family_terms() if callable(term)]
    arrays: list[Any] = [None] * terms.family_terms().count(None)
    arrays = [*arrays, terms.prior(hyper), terms.locals(group), group, hyper]
    try:
        shapes = map(np.shape, jax.tree.leaves(arrays))
        key = structure_key([functions, jax.tree.structure(arrays), *shapes])
    except (NotComparableError, TypeError, ValueError):
        key = object()
    return key, tuple(structure.order or ()), tuple(structure.plates)


def _split(globals: Any, hyper: Hyper, guide: Guide) -> tuple[Any, FreePart | None]:
    """The conjugate globals, or a function from `hyper` to them; and the free globals."""
    if not callable(globals):
        return split(globals, guide)
    _, free = split(globals(hyper), guide)
    if free is None:
        return globals, None
    return lambda hyper: split(globals(hyper), guide)[0], free


def _full_start(init: starts.Init, free: FreePart | None) -> starts.Init:
    """The start, including the start of the free coordinates."""
    if free is None:
        return init
    start_free = lambda key: free.family(jax.random.fold_in(key, 1))
    return lambda key, context: init(key, context).replace({Z: start_free(key)})


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
