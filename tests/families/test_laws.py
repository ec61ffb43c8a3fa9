"""The laws of exponential families, on every row of the registry.

All numbers of a case come from three compiled functions, `numbers`, `draws` and `slopes_of_draws`,
each run once and cached; the rows of one family have one shape, so that they share the compilation.
Exactness is asserted in float64.

Monte Carlo laws compare an average of float32 draws with its exact expectation at 6 standard
errors. A comparison fails by chance with probability 2e-9 and there are under 500 of them, at fixed
seeds: a false alarm has probability 1e-6, and would be seen once, when a test is written, and never
again."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import vijax.families
from tests.cases import FAMILIES, Case, Recipe
from tests.rounding import rounding
from vijax.families import Categorical, Dirichlet, Family, Multinomial, Product

MODERATE = [case for case in FAMILIES if not case.extreme]
NUM_DRAWS = 20_000
FEW = 20


def runs_on(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def is_discrete(q: Family) -> bool:
    return any(map(is_discrete, q.values())) if isinstance(q, Product) else q.discrete


CONTINUOUS = [case for case in FAMILIES if not is_discrete(case.build())]
DISCRETE = [case for case in FAMILIES if case not in CONTINUOUS]

# Unoptimised code: these functions run once, and compiling them is all of the cost.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


# --- everything there is to know of a case --------------------------------------------------------
@jit
def numbers(q: Family, p: Family, v: Family) -> dict[str, Any]:
    """All that is deterministic; `log_normalizer` alone gives `gradient`."""
    mu, fv = q.expected_stats(), q.fisher_product(v)
    return {
        "log_normalizer": q.log_normalizer(),
        "log_normalizer_p": p.log_normalizer(),
        "gradient": jax.grad(lambda q: jnp.sum(q.log_normalizer()))(q),
        "mean_stats": mu,
        "lambda_mu": q.dot(mu),
        "lambda_p_mu": p.dot(mu),
        "log_base_measure": q.expected_log_base_measure(),
        "entropy": q.entropy(),
        "kl": q.kl(p),
        "kl_self": q.kl(q),
        "product": fv,
        "solved": q.fisher_solve(fv),
        "mean": q.mean(),
    }


@jit
def slopes(q: Family, p: Family) -> Family:
    """The gradient of everything differentiable, summed."""
    values = lambda q: (q.log_normalizer(), q.entropy(), q.kl(p), q.expected_stats())
    return jax.grad(lambda q: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(values(q))))(q)


@jit
def hessian(q: Family) -> jax.Array:
    """The Hessian of A, (batch, P, P), from `log_normalizer` alone."""

    def one(leaves: list) -> jax.Array:
        vector, unravel = ravel_pytree(unbatched(q, leaves))
        return jax.hessian(lambda v: unravel(v).log_normalizer())(vector)

    return jax.vmap(one)(jax.tree.leaves(q))


@jit
def log_probs(q: Family, x: Any) -> jax.Array:
    return q.log_prob(x)


@functools.partial(jit, static_argnums=1)
def properties(q: Family, names: tuple[str, ...]) -> list[Any]:
    """Of these names, or what they return."""
    found = [getattr(q, name) for name in names]
    return [x() if callable(x) else x for x in found]


@functools.partial(jit, static_argnums=1)
def draws(q: Family, has_flat: bool) -> dict[str, Any]:
    """Many statistics, and a few values with their densities, from one key."""
    key = jax.random.key(0)
    x, t = q.sample(key, (NUM_DRAWS,)), q.sample_stats(key, (NUM_DRAWS,))
    few, few_stats = jax.tree.map(lambda a: a[:FEW], (x, t))
    near = few
    if not is_discrete(q):
        toward = lambda m, x: jnp.concatenate([m + step * (x - m) for step in (1.0, 0.1, 0.01)])
        near = jax.tree.map(toward, q.mode(), few)
    flat = (
        {"flat_level": q.flat().dot(few_stats) + q.log_base_measure(few_stats)} if has_flat else {}
    )
    return {
        **flat,
        "x": few,
        "values": x,
        "stats_of_x": q.stats(few),
        "few_stats": few_stats,
        "stats": t,
        "log_prob": q.log_prob(jax.tree.map(lambda a: a[:1000], x)),
        "log_prob_near_mode": q.log_prob(near),
        "log_prob_at_mode": q.log_prob(q.mode()),
    }


def slopes_of_draws(q: Family, v: Family, eta: tuple, mean: tuple, spread: tuple) -> dict[str, Any]:
    """Pathwise derivatives draw by draw: of the statistics along v; V eta; and V grad f(t), f a sum
    of cosines of standardised statistics, as the family has it and by automatic differentiation."""
    sine = lambda i, t, m, s: -jnp.sin((t - m) / s + i) / s

    def one(key: jax.Array) -> dict[str, Any]:
        stats, along_v = jax.jvp(lambda q: q.sample_stats(key), (q,), (v,))
        pathwise_stats, v_product = q.pathwise_sample(key)
        leaves = zip(*map(jax.tree.leaves, (stats, mean, spread)), strict=True)
        slope = q.as_stats([sine(i, *leaf) for i, leaf in enumerate(leaves)])
        return {
            "stats": stats,
            "along_v": along_v,
            "pathwise_stats": pathwise_stats,
            "v_eta": v_product(eta),
            "curved": q.fisher_solve(
                q.as_stats(jax.vjp(lambda q: q.sample_stats(key), q)[1](slope)[0])
            ),
            "curved_by_v": v_product(slope),
        }

    return jax.vmap(one)(jax.random.split(jax.random.key(1), NUM_DRAWS // 4))


unoptimised_slopes_of_draws = jit(slopes_of_draws)


@functools.partial(jit, static_argnums=2)
def slopes_of_moment(q: Family, v: Family, moment: tuple) -> tuple[jax.Array, jax.Array]:
    """d E[f(x)] along v: from differentiated draws, and from the closed form. (draws, batch) and
    (batch,)."""
    f, expectation = moment
    per_draw = lambda q: jax.vmap(jax.vmap(f))(q.sample(jax.random.key(1), (NUM_DRAWS // 4,)))
    return jax.jvp(per_draw, (q,), (v,))[1], jax.jvp(jax.vmap(expectation), (q,), (v,))[1]


def unbatched(q: Family, leaves: list) -> Family:
    """One member of a batch; a product's batch axis is static, and goes."""
    return jax.tree.unflatten(
        jax.tree.structure(Product(dict(q)) if isinstance(q, Product) else q), leaves
    )


def direction(q: Family, seed: int = 0) -> Family:
    """Standard normals in the structure of q, the same in both precisions."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), q)


def other(q: Family) -> Family:
    """A different member for every member."""
    return jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), q)


@functools.cache
def exact(name: str) -> dict[str, Any]:
    """`numbers` and `hessian` in float64."""
    with jax.enable_x64(True):
        q = named(name).build()
        v = named(name).gauge(q, direction(q))
        return jax.tree.map(np.asarray, {**numbers(q, other(q), v), "v": v, "hessian": hessian(q)})


@functools.cache
def single(name: str) -> dict[str, Any]:
    """`numbers` in float32."""
    q = named(name).build()
    return jax.tree.map(np.asarray, numbers(q, other(q), named(name).gauge(q, direction(q))))


@functools.cache
def drawn(name: str) -> dict[str, Any]:
    return jax.tree.map(np.asarray, draws(named(name).build(), named(name).has_flat))


@functools.cache
def drawn_slopes(name: str) -> dict[str, Any]:
    q = named(name).build()
    v = named(name).gauge(q, direction(q))
    compiled = jax.jit(slopes_of_draws) if named(name).optimise else unoptimised_slopes_of_draws
    mean = single(name)["mean_stats"]
    return jax.tree.map(
        np.asarray, compiled(q, v, q.as_stats(v), mean, spread_of_stats(name, mean))
    )


def spread_of_stats(name: str, like: Any) -> Any:
    """Standard deviations of the statistics, in their structure; 1 where there is none."""
    spread = np.float32(
        np.sqrt(np.maximum(np.diagonal(exact(name)["hessian"], axis1=-2, axis2=-1), 0))
    )
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf[0].size for leaf in leaves])
    parts = np.split(np.where(spread > 0, spread, 1), ends[:-1], axis=-1)
    return jax.tree.unflatten(
        structure, [p.reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
    )


def named(name: str) -> Case:
    return next(case for case in FAMILIES if case.name == name)


# --- assertions -----------------------------------------------------------------------------------
def flat(tree: Any, lead: int = 1) -> np.ndarray:
    """Leaves side by side, behind `lead` leading axes."""
    return np.concatenate(
        [np.reshape(leaf, (*leaf.shape[:lead], -1)) for leaf in jax.tree.leaves(tree)], -1
    )


def same(a: Any, b: Any, rtol: float = 1e-9, atol: float = 0.0) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def within_six_errors(
    sample: np.ndarray, expected: np.ndarray, spread: np.ndarray | None = None
) -> None:
    """Averages over the leading axis, in float64; `spread` is the exact standard deviation where
    there is one.

    Rounding is systematic where the spread is below it: log x of a component within 1e-6 of one.
    """
    sample = np.asarray(sample, np.float64)
    spread = sample.std(0) if spread is None else spread
    rounding = 2 * np.finfo(np.float32).eps * np.maximum(np.abs(sample).max(0), 1)
    errors = np.abs(sample.mean(0) - expected) / (spread / np.sqrt(len(sample)) + rounding + 1e-30)
    assert np.max(errors) < 6, f"{np.max(errors):.2f} standard errors"


def finite(tree: Any) -> bool:
    return all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(tree))


# --- A and its derivatives ------------------------------------------------------------------------
@runs_on(FAMILIES)
def test_mean_statistics_are_the_gradient_of_the_log_normalizer(case: Case) -> None:
    same(exact(case.name)["mean_stats"], exact(case.name)["gradient"], rtol=1e-9, atol=1e-12)


@runs_on(FAMILIES)
def test_samples_have_the_mean_statistics(case: Case) -> None:
    variances = np.diagonal(exact(case.name)["hessian"], axis1=-2, axis2=-1)
    spread = np.sqrt(np.maximum(variances, 0))
    within_six_errors(
        flat(drawn(case.name)["stats"], 2), flat(exact(case.name)["mean_stats"]), spread
    )


@runs_on(FAMILIES)
def test_fisher_product_is_the_hessian(case: Case) -> None:
    facts = exact(case.name)
    expected = np.einsum("bij,bj->bi", facts["hessian"], flat(facts["v"]))
    scale = np.einsum("bij,bj->bi", np.abs(facts["hessian"]), np.abs(flat(facts["v"])))
    assert np.all(np.abs(flat(facts["product"]) - expected) <= 1e-8 * scale + 1e-15)


@runs_on(MODERATE)
def test_fisher_solve_inverts_the_hessian(case: Case) -> None:
    facts = exact(case.name)
    again = np.einsum("bij,bj->bi", facts["hessian"], flat(facts["solved"]))
    np.testing.assert_allclose(again, flat(facts["product"]), rtol=1e-8, atol=1e-10)


@runs_on(MODERATE)
def test_fisher_solve_undoes_fisher_product(case: Case) -> None:
    """Away from the directions in which F is zero."""
    same(exact(case.name)["solved"], exact(case.name)["v"], rtol=1e-8, atol=1e-8)
    same(single(case.name)["solved"], exact(case.name)["v"], rtol=2e-3, atol=2e-3)


# --- densities ------------------------------------------------------------------------------------
@runs_on([case for case in FAMILIES if case.reference])
def test_log_prob_is_scipys(case: Case) -> None:
    """At float32 draws; SciPy works in x, so that draws which underflow, or round to one, are not
    compared."""
    with jax.enable_x64(True):
        q = case.build()
        x = np.asarray(drawn(case.name)["x"])
        x = x if is_discrete(q) else x.astype(np.float64)
        x = x / x.sum(-1, keepdims=True) if isinstance(q, Dirichlet) else x
        log_prob = np.asarray(log_probs(q, x))
    compared = 0
    for i, member in enumerate(case.members()):
        reference = case.reference(**member)
        density = reference.logpmf if is_discrete(q) else reference.logpdf
        for value, ours in zip(x[:, i], log_prob[:, i], strict=True):
            if isinstance(q, Dirichlet) and np.any(value == 0):
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                theirs = density(value)
            if np.isfinite(theirs):
                np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-7)
                compared += 1
    assert compared >= FEW


@runs_on([case for case in FAMILIES if case.reference and case.reference_entropy])
def test_entropy_is_scipys(case: Case) -> None:
    expected = [float(np.squeeze(case.reference(**member).entropy())) for member in case.members()]
    np.testing.assert_allclose(exact(case.name)["entropy"], expected, rtol=1e-7, atol=1e-8)


@runs_on(FAMILIES)
def test_entropy_and_kl_are_what_the_log_normalizer_says(case: Case) -> None:
    f = exact(case.name)
    size = sum(
        np.abs(f[name])
        for name in ("lambda_mu", "lambda_p_mu", "log_normalizer", "log_normalizer_p")
    )
    entropy = f["log_normalizer"] - f["lambda_mu"] - f["log_base_measure"]
    assert np.all(np.abs(f["entropy"] - entropy) <= 1e-10 * (1 + size))
    kl = f["lambda_mu"] - f["lambda_p_mu"] - f["log_normalizer"] + f["log_normalizer_p"]
    assert np.all(np.abs(f["kl"] - kl) <= 1e-10 * (1 + size))


@runs_on(FAMILIES)
def test_kl_is_a_divergence(case: Case) -> None:
    for facts, epsilon in ((single(case.name), 4e-6), (exact(case.name), 1e-12)):
        tolerance = epsilon * (1 + np.abs(facts["log_normalizer"]))
        assert np.all(np.abs(facts["kl_self"]) <= tolerance)
        assert np.all(facts["kl"] >= -tolerance)


@runs_on([case for case in CONTINUOUS if not case.extreme])
def test_entropy_is_the_mean_of_minus_log_prob(case: Case) -> None:
    """On a thousand draws, in float32."""
    within_six_errors(-drawn(case.name)["log_prob"], exact(case.name)["entropy"])


@runs_on([case for case in FAMILIES if case.support])
def test_log_prob_integrates_to_one(case: Case) -> None:
    """Trapezoids on the whole line, exponentially accurate, after mapping the support onto it."""
    change, log_slope = {
        "real": (lambda u: u, np.zeros_like),
        "positive": (np.exp, lambda u: u),
        "unit": (
            lambda u: 1 / (1 + np.exp(-u)),
            lambda u: -np.logaddexp(0, u) - np.logaddexp(0, -u),
        ),
    }[case.support]
    u = np.linspace(-60.0, 35.0, 20_001)[:, None]
    with jax.enable_x64(True):
        log_prob = np.asarray(log_probs(case.build(), change(u)))
    total = np.exp(log_prob + log_slope(u)).sum(0) * (u[1, 0] - u[0, 0])
    np.testing.assert_allclose(total, 1, rtol=1e-6)


@jit
def enumerated(q: Family, values: Any) -> dict[str, jax.Array]:
    """All that A has to do with the values of x, from h and t alone."""
    t = q.stats(values)
    log_weights = q.dot(t) + q.log_base_measure(t)
    log_normalizer = jax.nn.logsumexp(log_weights, axis=0)
    log_probs = log_weights - log_normalizer
    average = lambda leaf: jnp.einsum(
        "vb,vb...->b...", jnp.exp(log_probs), jnp.broadcast_to(leaf, over(leaf))
    )
    over = lambda leaf: (*log_probs.shape, *leaf.shape[2:])
    return {
        "log_normalizer": log_normalizer,
        "mean_stats": jax.tree.map(average, t),
        "entropy": -jnp.sum(jnp.exp(log_probs) * jnp.maximum(log_probs, -1e9), 0),
        "log_prob_error": jnp.max(jnp.abs(q.log_prob(values) - log_probs)),
    }


@runs_on([case for case in DISCRETE if not case.extreme])
def test_sums_over_all_values(case: Case) -> None:
    """A, the mean statistics, the entropy and the density of a discrete family by enumeration."""
    with jax.enable_x64(True):
        brute = jax.tree.map(np.asarray, enumerated(case.build(), case.values))
    assert brute["log_prob_error"] < 1e-9
    same(brute["log_normalizer"], exact(case.name)["log_normalizer"], rtol=1e-10, atol=1e-12)
    same(brute["entropy"], exact(case.name)["entropy"], rtol=1e-8, atol=1e-9)
    same(brute["mean_stats"], exact(case.name)["mean_stats"], rtol=1e-9, atol=1e-12)
    if isinstance(case.build(), Categorical | Multinomial):
        same(brute["mean_stats"], exact(case.name)["mean"], rtol=1e-9, atol=1e-12)


@runs_on(FAMILIES)
def test_the_mode_maximises_the_density(case: Case) -> None:
    facts = drawn(case.name)
    best = facts["log_prob_at_mode"]
    assert not np.any(np.isnan(best))
    size = np.where(
        np.isfinite(best), np.abs(best), 0.0
    )  # at the edge of the support a density may be 0 or infinite
    slack = 1e-5 * (1 + size + np.abs(single(case.name)["log_normalizer"]))
    exceeded = np.any(facts["log_prob_near_mode"] > best + slack, axis=0)
    assert not np.any(exceeded & np.asarray(case.peaked(case.build())))


@runs_on([case for case in FAMILIES if not case.has_flat])
def test_families_without_a_flat_member_say_so(case: Case) -> None:
    with pytest.raises(NotImplementedError, match="constant in x"):
        case.build().flat()


@runs_on([case for case in FAMILIES if case.has_flat])
def test_the_flat_member_is_constant_in_x(case: Case) -> None:
    level = drawn(case.name)["flat_level"]
    assert np.all(np.ptp(level, axis=0) <= 1e-5 * (1 + np.abs(level).max(0)))


# --- draws and their derivatives ------------------------------------------------------------------
@runs_on(MODERATE)
def test_sample_and_sample_stats_make_one_draw(case: Case) -> None:
    same(drawn(case.name)["stats_of_x"], drawn(case.name)["few_stats"], rtol=1e-4, atol=1e-4)


@runs_on(CONTINUOUS)
def test_pathwise_derivative_of_the_mean_statistics(case: Case) -> None:
    """E[J' v] = F v, with the sample's own spread."""
    within_six_errors(
        flat(drawn_slopes(case.name)["along_v"], 2), flat(exact(case.name)["product"])
    )


@runs_on([case for case in MODERATE if case.moment])
def test_pathwise_derivative_of_a_moment(case: Case) -> None:
    q = case.build()
    within_six_errors(*map(np.asarray, slopes_of_moment(q, direction(q), case.moment)))


@runs_on([case for case in CONTINUOUS if not case.extreme])
def test_v_has_mean_identity(case: Case) -> None:
    """E[V eta] = eta (Hoffman and Blei 2015, eq. 8), here for eta = v."""
    within_six_errors(flat(drawn_slopes(case.name)["v_eta"], 2), flat(exact(case.name)["v"]))


@runs_on([case for case in CONTINUOUS if not case.extreme])
def test_v_is_right_for_a_curved_function(case: Case) -> None:
    """E[V grad f(t)] is that of autodiff, F^-1 times the derivative of E[f(t)]: a V whose mean
    alone is right fails. Where V is autodiff's own the two differ by rounding, hence the
    hundredth."""
    directly, by_v = (flat(drawn_slopes(case.name)[key], 2) for key in ("curved", "curved_by_v"))
    gap = by_v - directly
    within_six_errors(gap, np.zeros(1), gap.std(0) + 0.01 * directly.std(0))


@runs_on([case for case in CONTINUOUS if not case.extreme])
def test_means_are_those_of_draws(case: Case) -> None:
    within_six_errors(flat(drawn(case.name)["values"], 2), flat(exact(case.name)["mean"]))


@runs_on(
    [
        case
        for case in FAMILIES
        if case.reference and not isinstance(case.build(), Categorical | Multinomial)
    ]
)
def test_means_are_scipys(case: Case) -> None:
    for i, member in enumerate(case.members()):
        mean = case.reference(**member).mean
        expected = np.asarray(mean() if callable(mean) else mean)
        np.testing.assert_allclose(
            exact(case.name)["mean"][i], expected, rtol=1e-8, atol=rounding(expected)
        )


@runs_on(CONTINUOUS)
def test_pathwise_sample_draws_what_sample_stats_draws(case: Case) -> None:
    facts = drawn_slopes(case.name)
    same(facts["pathwise_stats"], facts["stats"], rtol=1e-4, atol=1e-5)
    assert finite(facts)


@runs_on(DISCRETE)
def test_discrete_families_refuse_pathwise_draws(case: Case) -> None:
    with pytest.raises(NotImplementedError, match="ssvi_a"):
        case.build().pathwise_sample(jax.random.key(0))


# --- constructors and domain ----------------------------------------------------------------------
@runs_on([case for case in FAMILIES if case.name != "product"])
@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_properties_give_back_the_constructors_arguments(case: Case, double: bool) -> None:
    with jax.enable_x64(double):
        found = properties(case.build(), tuple(case.params))
        for got, value in zip(found, case.params.values(), strict=True):
            tolerance = (1e-9 if double else 2e-5) * (100 if case.extreme else 1)
            np.testing.assert_allclose(
                got, value, rtol=tolerance, atol=tolerance * np.abs(value).max()
            )


@runs_on(FAMILIES)
def test_every_registered_member_is_in_its_domain(case: Case) -> None:
    q = case.build()
    ok = q.in_domain()
    assert jax.tree.structure(ok) == jax.tree.structure(q)
    for mask, leaf in zip(jax.tree.leaves(ok), jax.tree.leaves(q), strict=True):
        assert mask.dtype == bool
        assert np.broadcast_to(mask, leaf.shape).all()


@runs_on(MODERATE)
def test_nan_leaves_the_domain(case: Case) -> None:
    q = case.build()
    for i in range(len(jax.tree.leaves(q))):
        leaves = [np.array(leaf) for leaf in jax.tree.leaves(q)]
        leaves[i][0] = np.nan
        masks = jax.tree.leaves(q.with_naturals(list(map(jnp.asarray, leaves))).in_domain())
        assert not np.all(masks[i][0]), "the bad member is flagged"
        assert np.all(masks[i][1:]), "and no other"


@runs_on([case for case in FAMILIES if case.outside])
def test_parameters_outside_the_domain_are_flagged(case: Case) -> None:
    for leaves in case.outside:
        q = case.build().with_naturals(list(map(jnp.asarray, leaves)))
        assert not all(np.all(mask) for mask in jax.tree.leaves(q.in_domain())), leaves


@runs_on([case for case in FAMILIES if case.invalid])
def test_constructors_name_the_bad_argument(case: Case) -> None:
    for constructor, arguments, name in case.invalid:
        with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
            constructor(**arguments)


@runs_on(FAMILIES)
def test_constructors_work_under_jit(case: Case) -> None:
    same(jit(case.constructor)(**case.params), case.build(), rtol=1e-5, atol=1e-5)


# --- shapes, dtypes and transformations -----------------------------------------------------------
def everything(q: Family, p: Family, key: jax.Array, has_flat: bool) -> dict[str, tuple]:
    """The outputs of all methods that are numbers, by what shape they should have."""
    mu, t = q.expected_stats(), q.sample_stats(key, (3,))
    out = {
        "scalars": (q.log_normalizer(), q.entropy(), q.kl(p), q.dot(mu), q.log_base_measure(mu)),
        "draws": (q.log_prob(q.sample(key, (3,))), q.dot(t)),
        "naturals": ((q.flat(),) if has_flat else ())
        + (q.with_naturals(mu), q.fisher_solve(q.as_stats(p))),
        "stats": (mu, q.fisher_product(p), q.as_stats(p)),
    }
    if not is_discrete(q):
        pathwise, v_product = q.pathwise_sample(key)
        out["naturals"] += (v_product(mu),)
        out["stats"] += (pathwise,)
    return out


def shapes(tree: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(tree)]


def check_shapes_and_dtypes(q: Family, dtype: Any, has_flat: bool) -> None:
    out = jax.eval_shape(functools.partial(everything, has_flat=has_flat), q, q, jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves((out, q))} == {np.dtype(dtype)}
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((out, q)))
    assert all(leaf.shape == q.batch_shape for leaf in out["scalars"])
    assert all(leaf.shape == (3, *q.batch_shape) for leaf in out["draws"])
    for tree in (*out["naturals"], *out["stats"]):
        assert shapes(tree) == shapes(q)
    assert {jax.tree.structure(natural) for natural in out["naturals"]} == {jax.tree.structure(q)}
    assert len({jax.tree.structure(stats) for stats in out["stats"]}) == 1
    values = jax.eval_shape(lambda q: (q.mean(), q.mode(), q.sample(jax.random.key(0))), q)
    assert {leaf.shape[:1] for leaf in jax.tree.leaves(values)} == {q.batch_shape}


@runs_on(MODERATE)
def test_shapes_and_dtypes(case: Case) -> None:
    """Batch axes lead, sample axes lead those; nothing is weakly typed; the dtype is that of the
    parameters, and float32 parameters stay float32 where x64 is on."""
    q = case.build()
    with jax.enable_x64(True):
        check_shapes_and_dtypes(q, jnp.float32, case.has_flat)
        check_shapes_and_dtypes(case.build(), jnp.float64, case.has_flat)


@runs_on(MODERATE)
def test_vmap_over_members_is_the_batch(case: Case) -> None:
    def one(leaves: list, leaves_p: list) -> dict[str, Any]:
        q, p = unbatched(case.build(), leaves), unbatched(case.build(), leaves_p)
        return {
            "entropy": q.entropy(),
            "kl": q.kl(p),
            "mean_stats": q.expected_stats(),
            "mean": q.mean(),
        }

    q = case.build()
    for name, value in jit(jax.vmap(one))(jax.tree.leaves(q), jax.tree.leaves(other(q))).items():
        same(value, single(case.name)[name], rtol=1e-4, atol=1e-5)


@runs_on(FAMILIES)
def test_extremes_and_their_gradients_are_finite(case: Case) -> None:
    """Values and first derivatives, draws included, in float32."""
    facts = single(case.name)
    if case.extreme and case in DISCRETE:
        facts = {name: value for name, value in facts.items() if name != "solved"}  # F underflows
    assert finite(facts)
    assert finite(slopes(case.build(), other(case.build())))
    assert finite([drawn(case.name)["stats"], drawn(case.name).get("flat_level", 0.0)])


@runs_on(FAMILIES)
def test_float32_agrees_with_float64(case: Case) -> None:
    """Relative to their size; A itself also relative to its terms, of the size of lambda."""
    for name in ("entropy", "mean_stats", "mean"):
        same(single(case.name)[name], exact(case.name)[name], rtol=1e-4, atol=1e-5)
    scale = 1 + np.max(np.abs(flat(case.build())))
    same(
        single(case.name)["log_normalizer"],
        exact(case.name)["log_normalizer"],
        rtol=1e-4,
        atol=1e-6 * scale,
    )


@runs_on(MODERATE)
def test_draws_differ_by_position_member_and_key(case: Case) -> None:
    for leaf in jax.tree.leaves(drawn(case.name)["stats"]):
        assert len(np.unique(leaf[:, 0])) > 1
    if case in CONTINUOUS:
        assert len(np.unique(flat(drawn_slopes(case.name)["stats"], 2), axis=0)) == NUM_DRAWS // 4


# --- types ----------------------------------------------------------------------------------------
def test_mean_and_natural_parameters_do_not_mix() -> None:
    for case in MODERATE:
        q = case.build()
        with pytest.raises((TypeError, ValueError)):
            jax.tree.map(jnp.add, q, jax.eval_shape(lambda q=q: q.expected_stats()))


def test_tree_structures_of_different_families_differ() -> None:
    """Otherwise a function compiled for one family is, once in a while, run on another."""
    structures = list(
        {type(q): jax.tree.structure(q) for q in (case.build() for case in MODERATE)}.values()
    )
    assert all(a != b for i, a in enumerate(structures) for b in structures[:i])


def test_families_are_frozen() -> None:
    for case in MODERATE:
        q = case.build()
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(q, dataclasses.fields(q)[0].name, 0.0)


def test_the_registry_has_every_family() -> None:
    exported = [cls for cls in vars(vijax.families).values() if isinstance(cls, type)]
    families = {cls for cls in exported if issubclass(cls, Family)} - {Family}
    assert families | {Recipe} == {type(case.build()) for case in FAMILIES}
