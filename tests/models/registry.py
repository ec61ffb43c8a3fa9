"""The registry of ready models: one row per model and regime, on which every law of
tests/models/test_laws_*.py runs.

A `Case` is a model of any data of its form. A `TableCase` is a model that is made of its table: a
regression by a formula, topics with covariates, Gaussian predictors. What a row says of a law is
True, or a size, where the law holds; else a text, the reason why it does not.

Sizes differ on purpose: groups, columns, words and components of a row have numbers of their own,
so that an axis of an array is known by its length, and a law can permute what it belongs to without
being told where it lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vijax as vi
from vijax.models import emission

GROUPS, COLUMNS, STEPS, WORDS, STATES = 7, 5, 4, 11, 3


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class Case:
    """A ready model with small data of N = 7 groups, and what it promises."""

    name: str
    covers: str
    """The name of the function of `vijax.models`, or of `vijax`, that makes the model."""
    make: Callable[[], Any]
    """The model. It is called anew for each precision, and to rebuild it."""
    data: Any
    """Float64 arrays with one leading axis of groups, or a corpus."""
    algorithm: str = "cavi"
    choices: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments of the algorithm."""
    steps: int = 6
    cheap: bool = False
    """Whether the laws run on it by default."""

    permutes: bool | str = True
    """Groups in another order: the same step."""
    weighs: bool | str = True
    """A group of weight 2 is the group twice."""
    columns: int | str = "none"
    """The number of columns (or words, or items) whose order means nothing; or why there are none
    such."""
    components: int | str = "none"
    """The number of components (states, topics, factors) whose numbers mean nothing."""
    scale: Any = "none"
    """The powers of ten by which columns may be multiplied, or why the model is not equivariant."""
    numbers: str = "real"
    """What an entry of the data may be: real, count, binary."""
    asks: Mapping[str, Callable[[Any, Any], Any]] = dataclasses.field(default_factory=dict)
    """Questions to a fit of data, by name: (fit, data) -> arrays with groups leading."""
    chance: bool = True
    """Whether another key is another fit."""
    pickles: bool | str = True
    """Whether the fit can be sent to another process."""
    alone: bool | str = True
    """What it says of a group does not depend on who else is asked."""
    draws: bool = False
    """Whether a step draws noise."""
    devices: bool | str = True
    """Whether a fit on two devices is that on one."""
    evidence: str | None = None
    """The test that compares its bound with the evidence."""

    def __repr__(self) -> str:
        return self.name


# --- data -----------------------------------------------------------------------------------------
def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def clustered(columns: int = COLUMNS, groups: int = GROUPS) -> np.ndarray:
    """Rows about three centres."""
    centres = 4.0 * generator(1).normal(size=(STATES, columns))
    return centres[np.arange(groups) % STATES] + generator(2).normal(size=(groups, columns))


REAL = clustered()
COUNTS = generator(3).poisson(3.0, (GROUPS, COLUMNS)).astype(float)
BINARY = (generator(4).random((GROUPS, COLUMNS)) < 0.4).astype(float)
MASK = np.arange(STEPS) < np.array([4, 2, 3, 4, 1, 4, 3])[:, None]
PATHS = (
    np.where(MASK[..., None], generator(5).normal(size=(GROUPS, STEPS, COLUMNS)).cumsum(1), 0.0),
    MASK,
)
PARTIAL_PATHS = np.where(generator(16).random(PATHS[0].shape) < 0.2, np.nan, PATHS[0]), MASK
COUNT_PATHS = (
    np.where(MASK[..., None], generator(6).poisson(3.0, (GROUPS, STEPS, COLUMNS)), 0).astype(float),
    MASK,
)
LABELS = np.where(
    generator(17).random(MASK.shape) < 0.3, generator(18).integers(2, size=MASK.shape), np.nan
)
KNOWN_PATHS = np.concatenate([COUNT_PATHS[0], LABELS[..., None]], axis=2), MASK
INPUTS = np.where(MASK[..., None], generator(7).normal(size=(GROUPS, STEPS, COLUMNS)), 0.0)
RESPONSE = np.where(MASK, generator(8).normal(size=(GROUPS, STEPS)), 0.0)
SIGNS = np.where(MASK, np.where(RESPONSE > 0, 1.0, -1.0), 0.0)
TABLE = np.vstack([generator(9).poisson(2.0, (GROUPS - 1, WORDS)), np.eye(WORDS)[:1]]).astype(int)
GRAPHS = (generator(10).random((GROUPS, COLUMNS, COLUMNS)) < 0.4).astype(float)
X = np.column_stack([np.ones(GROUPS), generator(11).normal(size=(GROUPS, COLUMNS - 1))])
Y = X @ generator(12).normal(size=COLUMNS) + 0.3 * generator(13).normal(size=GROUPS)


def corpus() -> vi.data.Corpus:
    """Documents as counts, one of them of a single word."""
    return vi.data.Corpus.from_counts(TABLE, [f"w{v}" for v in range(WORDS)])


def entries() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return vi.models.plsa_entries(TABLE)


# --- questions ------------------------------------------------------------------------------------
KEY = jax.random.key(3)


def locals_of(fit: Any, data: Any) -> Any:
    return fit.locals(data, key=KEY)


def shares_of(fit: Any, data: Any) -> Any:
    return fit.transform(data, key=KEY)


LOCALS = {"locals": locals_of}
SHARES = {"transform": shares_of}


# --- models of rows -------------------------------------------------------------------------------
def mixed(make: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: vi.models.mixture(make(STATES, COLUMNS), concentration=1.5)


MIXTURES = {
    "unit_gaussian": (
        emission.unit_gaussian,
        REAL,
        "real",
        "a prior of variance 100 about 0, and unit variances",
    ),
    "diagonal_gaussian": (
        emission.diagonal_gaussian,
        REAL,
        "real",
        "a prior about 0, of unit precisions",
    ),
    "full_gaussian": (emission.full_gaussian, REAL, "real", "a prior about 0, of unit precisions"),
    "spherical_gaussian": (
        emission.spherical_gaussian,
        REAL,
        "real",
        "a prior about 0, of unit precisions",
    ),
    "tied_gaussian": (emission.tied_gaussian, REAL, "real", "a prior about 0, of unit precisions"),
    "bernoulli": (emission.bernoulli, BINARY, "binary", "zeros and ones"),
    "poisson": (emission.poisson, COUNTS, "count", "counts"),
    "categorical": (emission.categorical, COUNTS, "count", "counts"),
}


def mixtures() -> list[Case]:
    return [
        Case(
            f"mixture_{name}",
            "mixture",
            mixed(make),
            data,
            columns=COLUMNS,
            components=STATES,
            scale=reason,
            numbers=numbers,
            asks=LOCALS,
            cheap=name == "diagonal_gaussian",
            evidence="tests/models/mixtures/test_univariate_mixture.py"
            if name == "unit_gaussian"
            else None,
        )
        for name, (make, data, numbers, reason) in MIXTURES.items()
    ]


GAUSSIAN_PRIOR = "a prior about 0, of unit precisions"
PARTIAL = np.where(generator(15).random(REAL.shape) < 0.2, np.nan, REAL)
INCOMPLETE = {"full": emission.full_gaussian, "diagonal": emission.diagonal_gaussian}


def incomplete_mixtures() -> list[Case]:
    """Mixtures of rows with missing cells."""
    return [
        Case(
            f"mixture_incomplete_{name}",
            "mixture",
            mixed(lambda *sizes, make=make: emission.incomplete(make(*sizes))),
            PARTIAL,
            columns=COLUMNS,
            components=STATES,
            scale=GAUSSIAN_PRIOR,
            asks=LOCALS,
            evidence="tests/models/mixtures/test_missing_cells.py",
        )
        for name, make in INCOMPLETE.items()
    ]


def linear(w: Any, x: Any) -> Any:
    return x @ w


def encoded(w: Any, x: Any) -> Any:
    """Mean and log sd of q(z)."""
    return x @ w, jnp.full(2, -1.0, x.dtype)


def potentials(w: Any, x: Any) -> Any:
    return x @ w, jnp.full(2, -0.5, x.dtype)


def energy_of_scale(s: Any) -> Any:
    return 0.5 * jnp.sum(s["scale"].log - s["scale"].value * s["u"].square - jnp.log(2 * jnp.pi))


def networks(encode: Any) -> dict[str, Any]:
    return {
        "encoder": (encode, 0.3 * np.eye(COLUMNS, 2)),
        "decoder": (linear, 0.3 * np.eye(2, COLUMNS)),
    }


def autoencoder() -> Any:
    return vi.models.vae(
        **networks(encoded), observed=vi.models.observed.gaussian(sd=0.5), latent_dim=2
    )


def structured_autoencoder() -> Any:
    return vi.models.svae(
        globals={"scale": vi.Gamma.from_shape_rate(1.0, 1.0)},
        locals={"u": vi.Normal.from_mean_variance(np.zeros(2), 1.0)},
        energy=energy_of_scale,
        latent="u",
        observed=vi.models.observed.gaussian(sd=0.5),
        **networks(potentials),
    )


def dynamic_autoencoder() -> Any:
    observed = vi.models.observed.gaussian(sd=0.5)
    return vi.models.dynamic_svae(2, observed=observed, num_states=STATES, **networks(potentials))


BY_WORDS = "the draws of a document are by the numbers of its words"
NETWORKS = {
    "algorithm": "aevb",
    "choices": {"optimizer": optax.adam(0.01)},
    "weighs": "equal rows have draws of their own, so that many equal rows average over many draws",
    "pickles": "functions of optax are closures",
    "draws": True,
}
BY_NETWORKS = "the networks read columns in their order"

ROWS = [
    *mixtures(),
    *incomplete_mixtures(),
    Case(
        "dp_mixture",
        "dp_mixture",
        lambda: vi.models.dp_mixture(emission.diagonal_gaussian(STATES, COLUMNS)),
        REAL,
        columns=COLUMNS,
        components="sticks are in an order",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
        evidence="tests/models/test_evidence.py",
    ),
    Case(
        "dp_mixture_tied",
        "dp_mixture",
        lambda: vi.models.dp_mixture(emission.poisson(STATES, COLUMNS), truncation="tied"),
        COUNTS,
        columns=COLUMNS,
        components="sticks are in an order",
        scale="counts",
        numbers="count",
        asks=LOCALS,
        evidence="tests/models/test_evidence.py",
    ),
    Case(
        "factor_analysis",
        "factor_analysis",
        lambda: vi.models.factor_analysis(COLUMNS, 2, intercept=False),
        REAL,
        columns=COLUMNS,
        components=2,
        scale="loadings of unit precision",
        asks=LOCALS,
        cheap=True,
        evidence="tests/models/test_evidence.py",
    ),
    Case(
        "factor_analysis_isotropic",
        "factor_analysis",
        lambda: vi.models.factor_analysis(COLUMNS, 2, "isotropic"),
        np.where(generator(14).random(REAL.shape) < 0.2, np.nan, REAL),
        columns=COLUMNS,
        components="the last loading is the intercept",
        scale="loadings of unit precision",
        asks=LOCALS,
    ),
    Case(
        "gap_nmf",
        "gap_nmf",
        lambda: vi.models.gap_nmf(COLUMNS, STATES),
        COUNTS,
        columns=COLUMNS,
        components=STATES,
        scale="counts",
        numbers="count",
        asks=LOCALS,
    ),
    Case(
        "ard_regression",
        "ard_regression",
        lambda: vi.models.ard_regression(COLUMNS),
        (X, Y),
        columns=COLUMNS,
        chance=False,
        scale="a prior of unit precisions",
        cheap=True,
        evidence="tests/models/test_evidence.py",
    ),
    Case(
        "vae",
        "vae",
        autoencoder,
        REAL,
        columns=BY_NETWORKS,
        scale=BY_NETWORKS,
        asks=LOCALS,
        **NETWORKS,
    ),
    Case(
        "svae",
        "svae",
        structured_autoencoder,
        REAL,
        columns=BY_NETWORKS,
        scale=BY_NETWORKS,
        asks=LOCALS,
        **NETWORKS,
    ),
    # Series.
    Case(
        "hmm",
        "hmm",
        lambda: vi.models.hmm(emission.diagonal_gaussian(STATES, COLUMNS)),
        PATHS,
        columns=COLUMNS,
        components=STATES,
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
        cheap=True,
    ),
    Case(
        "hmm_poisson",
        "hmm",
        lambda: vi.models.hmm(emission.poisson(STATES, COLUMNS), stickiness=2.0),
        COUNT_PATHS,
        columns=COLUMNS,
        components=STATES,
        scale="counts",
        numbers="count",
        asks=LOCALS,
    ),
    Case(
        "hmm_incomplete",
        "hmm",
        lambda: vi.models.hmm(emission.incomplete(emission.full_gaussian(STATES, COLUMNS))),
        PARTIAL_PATHS,
        columns=COLUMNS,
        components=STATES,
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "hmm_known_states",
        "hmm",
        lambda: vi.models.hmm(
            emission.with_labels(emission.poisson(STATES, COLUMNS)),
        ),
        KNOWN_PATHS,
        columns="the last column is the state",
        components="states are known by their numbers",
        scale="counts",
        numbers="count",
        asks=LOCALS,
    ),
    Case(
        "hmm_left_right",
        "hmm",
        lambda: vi.models.hmm(
            emission.diagonal_gaussian(STATES, COLUMNS),
            starts="? 0 0",
            transitions=["? ? 0", "0 ? ?", "0 0 1"],
        ),
        PATHS,
        columns=COLUMNS,
        chance=False,
        components="states are in an order",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "hdp_hmm",
        "hdp_hmm",
        lambda: vi.models.hdp_hmm(emission.unit_gaussian(STATES, COLUMNS)),
        PATHS,
        columns=COLUMNS,
        components="sticks are in an order",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "factorial_hmm",
        "factorial_hmm",
        lambda: vi.models.factorial_hmm(COLUMNS, 2, STATES),
        PATHS,
        columns=COLUMNS,
        components="contributions of all chains are one vector",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "state_space",
        "linear_gaussian_state_space",
        lambda: vi.models.linear_gaussian_state_space(COLUMNS, 2),
        PATHS,
        columns=COLUMNS,
        components="the bias is one of the coefficients",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "arhmm",
        "arhmm",
        lambda: vi.models.arhmm(COLUMNS, STATES),
        PATHS,
        columns="lags are columns of one matrix, beside the constant",
        components=STATES,
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
    ),
    Case(
        "slds",
        "slds",
        lambda: vi.models.slds(COLUMNS, 6, 2),
        PATHS,
        columns=COLUMNS,
        components=6,
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
        steps=3,
    ),
    Case(
        "recurrent_slds",
        "recurrent_slds",
        lambda: vi.models.recurrent_slds(COLUMNS, STATES, 3),
        PATHS,
        columns=COLUMNS,
        components="stick-breaking regressions are in an order",
        scale=GAUSSIAN_PRIOR,
        asks=LOCALS,
        steps=3,
    ),
    Case(
        "dynamic_svae",
        "dynamic_svae",
        dynamic_autoencoder,
        PATHS,
        columns=BY_NETWORKS,
        scale=BY_NETWORKS,
        asks=LOCALS,
        steps=3,
        **NETWORKS,
    ),
    # Groups of rows.
    Case(
        "hierarchical_linear",
        "hierarchical_linear_regression",
        lambda: vi.models.hierarchical_linear_regression(COLUMNS),
        (INPUTS, RESPONSE, MASK),
        columns=COLUMNS,
        chance=False,
        scale="a population of unit precision",
        asks=LOCALS,
        cheap=True,
    ),
    Case(
        "hierarchical_probit",
        "hierarchical_probit_regression",
        lambda: vi.models.hierarchical_probit_regression(COLUMNS, "diagonal"),
        (INPUTS, SIGNS, MASK),
        columns=COLUMNS,
        chance=False,
        scale="a population of unit precision",
        asks=LOCALS,
    ),
    Case(
        "multilevel_logistic",
        "multilevel_logistic_regression",
        lambda: vi.models.multilevel_logistic_regression(COLUMNS, "diagonal"),
        (INPUTS, SIGNS, MASK),
        columns=COLUMNS,
        chance=False,
        scale="a population of unit precision",
        asks=LOCALS,
    ),
    # Graphs.
    Case(
        "stochastic_block_model",
        "stochastic_block_model",
        lambda: vi.models.stochastic_block_model(STATES, directed=True),
        GRAPHS,
        columns="nodes, which are visited in their order",
        components=STATES,
        chance=False,
        scale="zeros and ones",
        numbers="binary",
        asks=LOCALS,
    ),
    Case(
        "stochastic_block_model_poisson",
        "stochastic_block_model",
        lambda: vi.models.stochastic_block_model(STATES, "poisson"),
        np.maximum(GRAPHS, GRAPHS.swapaxes(1, 2)) * 3.0,
        columns="nodes, which are visited in their order",
        components="rates are those of pairs",
        chance=False,
        scale="counts",
        numbers="count",
        asks=LOCALS,
    ),
    # Documents.
    Case(
        "lda",
        "lda",
        lambda: vi.models.lda(STATES, WORDS, alpha=0.3, eta=0.2),
        corpus(),
        columns=WORDS,
        components=STATES,
        scale="counts",
        numbers="count",
        asks=SHARES,
        cheap=True,
    ),
    Case(
        "hdp",
        "hdp",
        lambda: vi.models.hdp(STATES, WORDS),
        corpus(),
        columns=WORDS,
        components="sticks are in an order",
        scale="counts",
        numbers="count",
        asks=SHARES,
    ),
    Case(
        "ctm",
        "ctm",
        lambda: vi.models.ctm(STATES, WORDS, num_samples=8),
        corpus(),
        draws=True,
        columns=BY_WORDS,
        components="draws of q(z) are by coordinate",
        scale="counts",
        numbers="count",
        asks=SHARES,
    ),
    Case(
        "simple_mixture",
        "simple_mixture",
        lambda: vi.models.simple_mixture(STATES, WORDS),
        corpus(),
        columns=WORDS,
        components=STATES,
        scale="counts",
        numbers="count",
        asks=SHARES,
    ),
    Case(
        "hpf",
        "hpf",
        lambda: vi.models.hpf(STATES, WORDS),
        corpus(),
        columns=WORDS,
        components=STATES,
        scale="counts",
        numbers="count",
        asks={"predict": lambda fit, data: fit.predict(data)},
    ),
    Case(
        "plsa",
        "plsa",
        lambda: vi.models.plsa(STATES, GROUPS, WORDS, "joint"),
        entries(),
        algorithm="map",
        columns="entries name words",
        components=STATES,
        scale="counts",
        numbers="count",
    ),
]


# --- models that are made of a table --------------------------------------------------------------
@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class TableCase:
    """A ready model that is made of its table, columns by name with rows leading."""

    name: str
    covers: str
    make: Callable[[Mapping[str, Any], Any], Any]
    """(table, weights) -> the model."""
    table: Mapping[str, np.ndarray]
    ask: Callable[[Any, Any, Mapping[str, Any]], Any]
    """(model, fit, table) -> predictions, rows leading; of any rows with these columns."""
    algorithm: str = "ngvi"
    choices: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    steps: int = 6
    cheap: bool = False

    permutes: bool | str = True
    """Rows in another order: the same predictions."""
    weighs: bool | str = True
    """A row of weight 2 is the row twice; one of weight 0 is left out."""
    stretches: Mapping[str, Callable[[Any, float, float], Any]] | str = "none"
    """For each column x that may be a x + b, what that does to predictions: (them, a, b) -> the new
    ones; or why there is no such column."""
    moves: bool = True
    """Whether b may be other than 0: not where groups have slopes, whose zero then is another
    place."""
    chance: bool = True
    """Whether another key is another fit."""
    pickles: bool | str = True
    """Whether the fit can be sent to another process."""
    alone: bool | str = True
    """What it says of a group does not depend on who else is asked."""

    def __repr__(self) -> str:
        return self.name


ROWS_OF_TABLE, LEVELS = 18, 4
NOISE = generator(20)
TABLE_X = NOISE.normal(size=ROWS_OF_TABLE)
TABLE_H = np.array(["a", "b", "c"])[np.arange(ROWS_OF_TABLE) % 3]
TABLE_G = np.array(["p", "q", "r", "s"])[NOISE.permutation(np.arange(ROWS_OF_TABLE) % LEVELS)]
TABLE_Y = 1.0 + 0.8 * TABLE_X + 0.5 * NOISE.normal(size=ROWS_OF_TABLE) + (TABLE_G == "p")
TABLE_COUNTS = NOISE.poisson(np.exp(0.3 + 0.4 * TABLE_X)).astype(float)
RESPONSES = {
    "gaussian": TABLE_Y,
    "t": TABLE_Y,
    "bernoulli": (np.median(TABLE_Y) < TABLE_Y).astype(float),
    "poisson": TABLE_COUNTS,
    "negativebinomial": TABLE_COUNTS,
    "zero_inflated_poisson": TABLE_COUNTS,
    "zero_inflated_negativebinomial": TABLE_COUNTS,
    "hurdle_poisson": TABLE_COUNTS,
    "hurdle_negativebinomial": TABLE_COUNTS,
    "gamma": np.exp(TABLE_Y),
    "exponential": np.exp(TABLE_Y),
    "weibull": np.exp(TABLE_Y),
    "wald": np.exp(TABLE_Y),
    "lognormal": np.exp(TABLE_Y),
    "vonmises": 2 * np.arctan(TABLE_Y / 2),
    "asymmetriclaplace": TABLE_Y,
    "hurdle_gamma": np.exp(TABLE_Y) * (TABLE_COUNTS > 0),
    "hurdle_lognormal": np.exp(TABLE_Y) * (TABLE_COUNTS > 0),
    "beta": 1 / (1 + np.exp(-TABLE_Y)),
    "zero_inflated_beta": (TABLE_COUNTS > 0) / (1 + np.exp(-TABLE_Y)),
    "binomial": np.minimum(TABLE_COUNTS, 5.0),
    "beta_binomial": np.minimum(TABLE_COUNTS, 5.0),
    "zero_inflated_binomial": np.minimum(TABLE_COUNTS, 5.0),
    "cumulative": np.digitize(TABLE_Y, [0.5, 1.5]).astype(float),
    "categorical": np.digitize(TABLE_Y, [0.5, 1.5]).astype(float),
    "sratio": np.digitize(TABLE_Y, [0.5, 1.5]).astype(float),
    "multinomial": np.minimum(TABLE_COUNTS, 5.0),
}
"""A response that each law of `vi.glmm` allows."""
FORMULAS = {
    "gaussian": "y ~ x + h + (x | g)",
    "poisson": "y ~ x + (1 | g) + (1 | h)",
    "binomial": "p(y, trials) ~ x + (1 | g)",
    "beta_binomial": "p(y, trials) ~ x + (1 | g)",
    "zero_inflated_binomial": "p(y, trials) ~ x + (1 | g)",
    "sratio": "y ~ cs(x) + h + (1 | g)",
    "multinomial": "c(trials, y) ~ x + (1 | g)",
}


def regression(family: str) -> Callable[[Any, Any], Any]:
    formula = FORMULAS.get(family, "y ~ x + (1 | g)")
    return lambda table, weights: vi.glmm(formula, table, family, weights=weights)


def predicted_by_formula(model: Any, fit: Any, table: Any) -> Any:
    """Predictors of rows, rows first, at draws that are the same for all tables."""
    eta = model.predictors(model.draws(fit, KEY, 20), table, KEY)
    return np.moveaxis(eta, 1, 0)


def with_parameters(model: Any, fit: Any, table: Any) -> Any:
    """Predictors of rows, and of each parameter the predictor plus it: both in one unit."""
    draws = model.draws(fit, KEY, 20)
    eta = model.predictors(draws, table, KEY)
    parameters = model.parameters(draws, table, KEY)
    sums = [eta + parameters[name] for name in sorted(parameters)]
    return np.moveaxis(np.stack([eta, *sums], -1), 1, 0)


FORMULAS_OF_PARAMETERS = {
    "gaussian": ("y ~ x + h + (1 | g)", "sigma ~ x"),
    "t": ("y ~ x + (1 | g)", "sigma ~ x"),
    "lognormal": ("y ~ x", "sigma ~ x + (1 | g)"),
    "hurdle_poisson": ("y ~ x", "psi ~ x + (1 | g)"),
    "vonmises": ("y ~ x", "kappa ~ x + (1 | g)"),
    "asymmetriclaplace": ("y ~ x + (1 | g)", "sigma ~ x"),
}
"""Formulas of a response and of a parameter, by the law."""


def of_parameters(family: str) -> TableCase:
    """A regression with a formula of a parameter."""
    formula, further = FORMULAS_OF_PARAMETERS[family]
    same, moved = (lambda eta, a, b: eta), (lambda eta, a, b: a * eta + b)
    stretches = {"gaussian": {"x": same, "y": moved}, "asymmetriclaplace": KINKS}
    return TableCase(
        f"glmm_{family}_parameter",
        "glmm",
        lambda table, weights: vi.glmm(formula, table, family, weights=weights, formulas=[further]),
        {"y": RESPONSES[family], "x": TABLE_X, "g": TABLE_G, "h": TABLE_H},
        with_parameters,
        weighs=KINKS if family == "asymmetriclaplace" else True,
        cheap=family == "gaussian",
        stretches=stretches.get(family, {"x": same}),
    )


def partly_known() -> list[TableCase]:
    """Regressions whose responses have known errors, are censored, or truncated."""
    size = len(TABLE_X)
    columns = {"x": TABLE_X, "g": TABLE_G, "s": 0.3 + 0.1 * np.arange(size)}
    columns["status"] = np.array(["none", "right", "left"])[np.arange(size) % 3]
    same = lambda eta, a, b: eta
    rows = [
        ("se", "se(y, s) ~ x + (1 | g)", "gaussian", True),
        ("se_sigma", "se(y, s, sigma=True) ~ x + (1 | g) + (1 | status)", "gaussian", True),
        ("censored", "censored(y, status) ~ x + (1 | g)", "weibull", UNSEEN),
        ("truncated", "truncated(y, lb=-5, ub=90) ~ x + (1 | g)", "t", True),
        ("truncated_counts", "truncated(y, ub=40) ~ x + (1 | g)", "negativebinomial", True),
    ]
    return [
        TableCase(
            f"glmm_{name}",
            "glmm",
            lambda table, weights, formula=formula, family=family: vi.glmm(
                formula, table, family, weights=weights
            ),
            {"y": RESPONSES[family], **columns},
            predicted_by_formula,
            weighs=weighs,
            cheap=name == "se",
            stretches=APART if name == "truncated" else {"x": same},
        )
        for name, formula, family, weighs in rows
    ]


KINKS = "densities of quantiles have kinks: rounding picks other draws of effects"
APART = "in float32 six steps of a truncated t move apart by rounding; in float64 they agree"
UNSEEN = "responses of censored rows are not drawn anew"


def regressions() -> list[TableCase]:
    trials = np.full(ROWS_OF_TABLE, 6.0)
    columns = {"x": TABLE_X, "g": TABLE_G, "h": TABLE_H, "trials": trials}
    same, moved = (lambda eta, a, b: eta), (lambda eta, a, b: a * eta + b)
    crossed = TableCase(
        "glmm_crossed",
        "glmm",
        lambda table, weights: vi.glmm(
            "y ~ x + (1 | g) + (1 | h)", table, "gaussian", weights=weights
        ),
        {"y": RESPONSES["gaussian"], **columns},
        predicted_by_formula,
        cheap=False,
        stretches={"x": same, "y": moved},
        moves=False,
    )
    monotone = TableCase(
        "glmm_monotone",
        "glmm",
        lambda table, weights: vi.glmm("y ~ mo(k) + x + (1 | g)", table, weights=weights),
        {"y": TABLE_Y, "k": np.arange(ROWS_OF_TABLE) % 3, **columns},
        predicted_by_formula,
        stretches={"x": same, "y": moved},
    )
    monotone_categories = TableCase(
        "glmm_monotone_categories",
        "glmm",
        lambda table, weights: vi.glmm(
            "y ~ mo(k) + x + (1 | g)", table, "categorical", weights=weights
        ),
        {"y": RESPONSES["categorical"], "k": np.arange(ROWS_OF_TABLE) % 3, **columns},
        predicted_by_formula,
        cheap=False,
        stretches={"x": same},
    )
    smooth = TableCase(
        "glmm_smooth",
        "glmm",
        lambda table, weights: vi.glmm("y ~ s(x, k=5) + (1 | g)", table, weights=weights),
        {"y": TABLE_Y, **columns},
        predicted_by_formula,
        weighs="places of splines are those of rows without weights",
        stretches={"x": same, "y": moved},
    )
    gaussian_process = TableCase(
        "glmm_process",
        "glmm",
        lambda table, weights: vi.glmm("y ~ hsgp(x, m=5, c=2) + (1 | g)", table, weights=weights),
        {"y": TABLE_Y, **columns},
        predicted_by_formula,
        cheap=False,
        stretches={"x": same, "y": moved},
    )
    shifted = {"x": same, "y": moved}
    units = {"gaussian": shifted, "t": shifted, "asymmetriclaplace": KINKS}
    by_law = [
        TableCase(
            f"glmm_{family}",
            "glmm",
            regression(family),
            {"y": response, **columns},
            predicted_by_formula,
            cheap=family == "gaussian",
            weighs=KINKS if family == "asymmetriclaplace" else True,
            stretches=units.get(family, {"x": same}),
            moves=family != "gaussian",
        )
        for family, response in RESPONSES.items()
    ]
    kinds = [*partly_known(), crossed, monotone, monotone_categories, smooth, gaussian_process]
    return [*by_law, *kinds, *map(of_parameters, FORMULAS_OF_PARAMETERS)]


def squared_exponential(a: Any, b: Any) -> Any:
    return jnp.exp(-0.5 * jnp.sum((a[:, None] - b[None, :]) ** 2, -1))


def process(table: Any, weights: Any) -> Any:
    return vi.models.gp(
        table["x"], table["y"], squared_exponential, vi.likelihood.gaussian(0.2), jitter=1e-3
    )


def moments_at(model: Any, fit: Any, table: Any) -> Any:
    """Mean and variance of the predictors of rows."""
    return model.predict(fit.posterior, table["x"])


def topics_with_covariates(content: str | None) -> Callable[[Any, Any], Any]:
    quick = vi.estep.proximal_gradient(
        vi.expectation.vector_monte_carlo(16, antithetic=True), max_iters=15
    )
    choices = {"eta": 0.1, "estep": quick, "num_samples": 16, "content": content}

    def make(table: Any, weights: Any) -> Any:
        others = {name: column for name, column in table.items() if name != "words"}
        return vi.stm(STATES, documents_of(table), others, "~ x + h", **choices)

    return make


def moving_topics(table: Any, weights: Any) -> Any:
    return vi.dtm(STATES, documents_of(table), table["x"], alpha=0.3, drift=0.2)


def shares_in_time(model: Any, fit: Any, table: Any) -> Any:
    return fit.transform(model.with_times(documents_of(table), table["x"]), key=KEY)


def documents_of(table: Any) -> vi.data.Corpus:
    return vi.data.Corpus.from_counts(table["words"], [f"w{v}" for v in range(WORDS)])


def shares_of_rows(model: Any, fit: Any, table: Any) -> Any:
    others = {name: column for name, column in table.items() if name != "words"}
    return fit.transform(model.described(documents_of(table), others), key=KEY)


PREDICTORS = {
    "algorithm": "pg_svi",
    "choices": {"step_size": vi.step_size.constant(0.5)},
    "chance": False,
}
INPUTS_OF_TABLE = np.column_stack(
    [np.ones(ROWS_OF_TABLE), TABLE_X, NOISE.normal(size=ROWS_OF_TABLE)]
)
SIGNS_OF_TABLE = np.where(np.median(TABLE_Y) < TABLE_Y, 1.0, -1.0)
WORDS_OF_TABLE = NOISE.poisson(2.0, (ROWS_OF_TABLE, WORDS)) + np.eye(
    ROWS_OF_TABLE, WORDS, dtype=int
)
WITHOUT_WEIGHTS = "it takes no weights"
YEARS = np.arange(ROWS_OF_TABLE) % 3

TABLES = [
    *regressions(),
    TableCase(
        "gp",
        "gp",
        process,
        {"x": INPUTS_OF_TABLE[:, 1:], "y": TABLE_Y},
        moments_at,
        weighs=WITHOUT_WEIGHTS,
        stretches="a kernel of unit length and height",
        **PREDICTORS,
    ),
    TableCase(
        "glm",
        "glm",
        lambda table, weights: vi.models.glm(table["x"], table["y"], vi.likelihood.poisson_log()),
        {"x": INPUTS_OF_TABLE, "y": TABLE_COUNTS},
        moments_at,
        weighs=WITHOUT_WEIGHTS,
        stretches="weights of unit variance",
        **PREDICTORS,
    ),
    TableCase(
        "glm_kernel",
        "glm",
        lambda table, weights: vi.models.glm(
            table["x"], table["y"], vi.likelihood.poisson_log(), form="kernel"
        ),
        {"x": INPUTS_OF_TABLE, "y": TABLE_COUNTS},
        moments_at,
        weighs=WITHOUT_WEIGHTS,
        stretches="weights of unit variance",
        **PREDICTORS,
    ),
    TableCase(
        "logistic_regression",
        "logistic_regression",
        lambda table, weights: vi.models.logistic_regression(table["x"], table["y"]),
        {"x": INPUTS_OF_TABLE, "y": SIGNS_OF_TABLE},
        moments_at,
        weighs=WITHOUT_WEIGHTS,
        stretches="weights of unit variance",
        cheap=True,
        **PREDICTORS,
    ),
    *(
        TableCase(
            name,
            "stm",
            topics_with_covariates(content),
            {"words": WORDS_OF_TABLE, "x": TABLE_X, "h": TABLE_H},
            shares_of_rows,
            algorithm="cavi",
            steps=3,
            weighs=WITHOUT_WEIGHTS,
            stretches={"x": lambda shares, a, b: shares},
        )
        for name, content in (("stm", None), ("stm_content", "h"))
    ),
    TableCase(
        "dtm",
        "dtm",
        moving_topics,
        {"words": WORDS_OF_TABLE, "x": np.array([1.0, 3.0, 4.0])[YEARS]},
        shares_in_time,
        algorithm="cavi",
        cheap=True,
        permutes="its start draws documents by their places",
        weighs=WITHOUT_WEIGHTS,
        stretches={"x": lambda shares, a, b: shares},
    ),
]


# --- parametrisation ------------------------------------------------------------------------------
def on(cases: Iterable[Case | TableCase], also: Container[str] = ()) -> pytest.MarkDecorator:
    """A test of each of these rows: of the cheap ones, and those named beside them, by default;
    else slow."""
    marks = lambda case: () if case.cheap or case.name in also else pytest.mark.slow
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]
    )


def that_hold(law: str, cases: Iterable[Any]) -> list[Any]:
    """The rows of which a law holds: they say no reason against it."""
    return [case for case in cases if not isinstance(getattr(case, law), str)]
