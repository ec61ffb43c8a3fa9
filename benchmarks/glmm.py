"""Regressions by a formula beside NUTS: means, standard deviations and CPU seconds.

    python benchmarks/glmm.py [name ...]
    python benchmarks/glmm.py million          # a million rows of zeros and ones in 10,000 groups, by vijax.auto
    python benchmarks/glmm.py minibatches      # the same, 100 groups a step
    python benchmarks/glmm.py million-normal   # a million rows of a normal law in 10,000 groups
    python benchmarks/glmm.py crossed-large    # 20,000 rows of 2,000 people and 100 items
    python benchmarks/glmm.py crossed-million  # a million rows of as many
    python benchmarks/glmm.py bambi            # sleepstudy by Bambi itself, where it is installed

`vijax.glmm` by `vijax.auto`, and the same model with all group effects as unknowns (non-centred) by
NumPyro's NUTS, four chains of 1,000 warm-up steps and 2,500 draws. Of each unknown of the formula:
the difference of means in posterior sds, and the ratio of sds."""

import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from scipy.special import expit

import vijax as vi
from tests.models.mixed_tables import CATTLE, SLEEP
from vijax.models.formulas.formula import name_at_level
from vijax.models.formulas.laws import LAWS

CHAINS, WARM, DRAWS = 4, 1000, 2500


def made(seed, groups, size, law, slopes=False):
    """A table of groups with a column x, a category h, and effects of sd 0.7 (and 0.4 of the
    slopes)."""
    rng = np.random.default_rng(seed)
    g, x, h = (
        np.repeat(np.arange(groups), size),
        rng.normal(size=groups * size),
        rng.integers(3, size=groups * size),
    )
    u = rng.normal(size=(groups, 2)) * [0.7, 0.4 * slopes]
    eta = 0.3 + 0.6 * x - 0.5 * (h == 1) + 0.4 * (h == 2) + u[g, 0] + u[g, 1] * x
    table = {"x": x, "h": np.array(list("abc"))[h], "g": g}
    return {**table, "y": law(rng, eta)}


def ticks(seed=5):
    """Counts as those of ticks on grouse: chicks in broods at places, with years and altitude."""
    rng = np.random.default_rng(seed)
    place, years = rng.integers(40, size=110), rng.integers(3, size=110)
    brood = np.sort(rng.integers(110, size=400))
    height = rng.normal(size=40)
    eta = 0.5 - 0.8 * height[place] + 0.6 * (years == 1) - 0.3 * (years == 2)
    eta = (eta + 0.5 * rng.normal(size=40)[place] + 0.6 * rng.normal(size=110))[brood]
    table = {"ticks": rng.poisson(np.exp(eta)), "brood": brood, "place": place[brood]}
    return {
        **table,
        "year": np.array(["95", "96", "97"])[years[brood]],
        "height": height[place[brood]],
    }


def crossed(seed=6):
    """Ratings of items by people."""
    rng = np.random.default_rng(seed)
    person, item = np.repeat(np.arange(60), 12), np.tile(np.arange(24), 30)
    x = rng.normal(size=720)
    y = (
        3
        + 0.5 * x
        + 0.8 * rng.normal(size=60)[person]
        + 0.5 * rng.normal(size=24)[item]
        + rng.normal(size=720)
    )
    return {"y": y, "x": x, "person": person, "item": item}


def choices(seed=11):
    """One of three things chosen by people in 15 groups, which differ."""
    rng = np.random.default_rng(seed)
    g, x, h = np.repeat(np.arange(15), 20), rng.normal(size=300), rng.integers(3, size=300)
    u = rng.normal(size=(15, 2)) * [0.8, 0.6]
    of_bus, of_train = (
        0.3 + 0.6 * x - 0.5 * (h == 1) + u[g, 0],
        -0.2 - 0.4 * x + 0.4 * (h == 2) + u[g, 1],
    )
    noise = rng.gumbel(size=(300, 3))
    y = np.array(["a car", "bus", "train"])[
        (np.stack([0 * x, of_bus, of_train], 1) + noise).argmax(1)
    ]
    return {"y": y, "x": x, "h": np.array(list("abc"))[h], "g": g}


CASES = {
    "sleepstudy": ("reaction ~ days + (days | subject)", SLEEP, "gaussian"),
    "cbpp": ("p(incidence, size) ~ period + (1 | herd)", CATTLE, "binomial"),
    "ticks": ("ticks ~ year + height + (1 | brood) + (1 | place)", ticks(), "poisson"),
    "labels": (
        "y ~ x + h + (1 | g)",
        made(1, 50, 6, lambda r, e: r.random(e.size) < expit(e)),
        "bernoulli",
    ),
    "slopes": (
        "y ~ x + h + (x | g)",
        made(2, 40, 10, lambda r, e: r.poisson(np.exp(e)), True),
        "poisson",
    ),
    "counts": (
        "y ~ x * h + (1 | g)",
        made(3, 40, 8, lambda r, e: r.poisson(np.exp(e) * r.gamma(2.0, 0.5, e.size))),
        "negativebinomial",
    ),
    "zeros": (
        "y ~ x + h + (1 | g)",
        made(8, 40, 10, lambda r, e: r.poisson(np.exp(e + 0.5)) * (r.random(e.size) < 0.7)),
        "zero_inflated_poisson",
    ),
    "hurdle": (
        "y ~ x + h + (1 | g)",
        made(9, 40, 10, lambda r, e: (1 + r.poisson(np.exp(e))) * (r.random(e.size) < 0.6)),
        "hurdle_negativebinomial",
    ),
    "ratings": (
        "y ~ x + h + (1 | g)",
        made(
            10, 40, 10, lambda r, e: np.searchsorted([-1.0, 0.5, 2.0], e + r.logistic(size=e.size))
        ),
        "cumulative",
    ),
    "choices": ("y ~ x + h + (1 | g)", choices(), "categorical"),
    "times": (
        "y ~ x + h + (1 | g)",
        made(4, 40, 8, lambda r, e: r.gamma(3.0, np.exp(e) / 3.0)),
        "gamma",
    ),
    "outliers": (
        "y ~ x + h + (1 | g)",
        made(12, 40, 8, lambda r, e: e + 0.5 * r.standard_t(3.0, e.size)),
        "t",
    ),
    "shares": (
        "y ~ x + h + (1 | g)",
        made(13, 40, 8, lambda r, e: r.beta(8 * expit(e), 8 * expit(-e)).clip(1e-6, 1 - 1e-6)),
        "beta",
    ),
    "bursts": (
        "y ~ x + h + (1 | g)",
        made(
            14,
            40,
            10,
            lambda r, e: (
                r.poisson(np.exp(e + 1) * r.gamma(2.0, 0.5, e.size)) * (r.random(e.size) < 0.7)
            ),
        ),
        "zero_inflated_negativebinomial",
    ),
    "visits": (
        "y ~ x + h + (1 | g)",
        made(15, 40, 10, lambda r, e: (1 + r.poisson(np.exp(e))) * (r.random(e.size) < 0.6)),
        "hurdle_poisson",
    ),
    "large": ("y ~ x + h + (x | g)", made(7, 1000, 10, lambda r, e: r.normal(e), True), "gaussian"),
    "crossed": ("y ~ x + (1 | person) + (1 | item)", crossed(), "gaussian"),
}


def with_effects(model):
    """The same model in NumPyro, its effects as unknowns."""
    form, design, priors, law = (
        model.density_form,
        model.design,
        model.priors,
        LAWS[model.density_form.law],
    )
    kinds = {
        "normal": dist.Normal,
        "half_normal": dist.HalfNormal,
        "half_cauchy": dist.HalfCauchy,
        "gamma": dist.Gamma,
        "beta": dist.Beta,
    }
    y, trials = jnp.asarray(design.y), jnp.asarray(design.trials)

    def of(name):
        kind, *numbers = priors[name]
        if kind == "half_student_t":
            raw = numpyro.sample(
                name, dist.FoldedDistribution(dist.StudentT(numbers[0], 0.0, numbers[1]))
            )
            return raw
        return numpyro.sample(name, kinds[kind](*numbers))

    centre = dict(zip(design.labels, form.centre, strict=True))

    def predictor(level):
        """Coefficients and predictors of one category, or of the only predictor."""
        own = lambda label: name_at_level(label, level)
        beta = {label: of(own(label)) if label != "Intercept" else 0.0 for label in design.labels}
        if "Intercept" in beta:
            at_centre = numpyro.sample(
                own("centred"), kinds["normal"](*priors[own("Intercept")][1:])
            )
            rest = sum(beta[label] * centre[label] for label in beta if label != "Intercept")
            beta["Intercept"] = numpyro.deterministic(own("Intercept"), at_centre - rest)
        eta = design.rows.offset + design.rows.x @ jnp.stack(
            [jnp.asarray(beta[label]) for label in design.labels]
        )
        for factor, z, group in zip(design.factors, design.rows.z, design.rows.groups, strict=True):
            d = len(factor.labels)
            sds = jnp.stack([of(own(f"{label}|{factor.name}_sigma")) for label in factor.labels])
            root = jnp.eye(d)
            if max(factor.blocks) > 1:
                root = numpyro.sample(own(f"root|{factor.name}"), dist.LKJCholesky(d, 1.0))
                numpyro.deterministic(own(f"corr(1, {factor.labels[1]}|{factor.name})"), root[1, 0])
            v = numpyro.sample(
                own(f"v|{factor.name}"), dist.Normal().expand([len(factor.levels), d]).to_event(2)
            )
            eta = eta + jnp.sum(z * (v @ (sds[:, None] * root).T)[group], 1)
        return beta, eta

    def program():
        found = [predictor(level) for level in design.against or (None,)]
        beta, eta = (
            found[0][0],
            jnp.stack([eta for _, eta in found], 1) if design.against else found[0][1],
        )
        if form.cutpoints:  # normal laws where they increase, of predictors less their mean
            laws = [priors[f"threshold[{i}]"][1:] for i in range(form.cutpoints)]
            cuts = numpyro.sample(
                "cuts", dist.ImproperUniform(dist.constraints.ordered_vector, (), (form.cutpoints,))
            )
            numpyro.factor(
                "of cuts",
                sum(dist.Normal(*law).log_prob(cut) for law, cut in zip(laws, cuts, strict=True)),
            )
            mean = sum(beta[label] * centre[label] for label in beta)
            aux = {"threshold": cuts + mean}
            for i in range(form.cutpoints):
                numpyro.deterministic(f"threshold[{i}]", cuts[i] + mean)
        else:
            aux = {name: of(name) for name in law.aux}
        numpyro.factor(
            "rows", jnp.sum(jax.vmap(lambda n, y, e: law.log_prob(aux, n, y, e))(trials, y, eta))
        )

    return program


def compared(name):
    text, table, family = CASES[name]
    begin = time.process_time()
    model = vi.glmm(text, table, family=family)
    fit = vi.auto(model, model.data, key=jax.random.key(0), richer=True)
    table = fit.summary(num_draws=20_000)
    ours = time.process_time() - begin
    begin = time.process_time()
    kernel, sizes = (
        NUTS(with_effects(model), target_accept_prob=0.9),
        {"num_warmup": WARM, "num_samples": DRAWS},
    )
    sampler = MCMC(
        kernel, **sizes, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    sampler.run(jax.random.key(1))
    draws = {k: np.asarray(v) for k, v in sampler.get_samples(group_by_chain=True).items()}
    theirs = time.process_time() - begin
    print(f"\n## {name}: `{text}`, {family}, {len(model.design.y):,} rows\n")
    print(
        f"CPU seconds {ours:.1f}, NUTS {theirs:.1f}: {theirs / ours:.1f} times as many. "
        f"{fit.verdict}\n"
    )
    print(
        "| unknown | mean | sd | NUTS mean | NUTS sd | means differ by (sds) | ratio of sds | "
        "NUTS n_eff |"
    )
    print("|---|---|---|---|---|---|---|---|")
    worst = [0.0, 0.0]
    for label, mean, sd in zip(table.names, table.mean, table.sd, strict=True):
        x = draws[label]
        off, ratio = (mean - x.mean()) / x.std(), sd / x.std()
        effective = numpyro.diagnostics.effective_sample_size(x)
        worst = [max(worst[0], abs(off)), max(worst[1], abs(ratio - 1))]
        numbers = (
            f"{mean:.4g} | {sd:.3g} | {x.mean():.4g} | {x.std():.3g} | {off:+.2f} | {ratio:.3f} | "
            f"{effective:.0f}"
        )
        print(f"| {label} | {numbers} |")
    print(f"\nworst: means {worst[0]:.2f} sd, sds {worst[1]:.0%}", flush=True)


def rated(rows, seed=17, people=2000, items=100):
    """Ratings of items by people, drawn at random."""
    rng = np.random.default_rng(seed)
    p, i, x = rng.integers(people, size=rows), rng.integers(items, size=rows), rng.normal(size=rows)
    eta = 0.3 + 0.6 * x + 0.8 * rng.normal(size=people)[p] + 0.5 * rng.normal(size=items)[i]
    return {"y": rng.normal(eta), "x": x, "p": p, "i": i}


MADE = {"Intercept": 0.3, "x": 0.6}
BY_GROUPS = MADE | {"h[b]": -0.5, "h[c]": 0.4, "1|g_sigma": 0.7}
BY_BOTH = MADE | {"1|p_sigma": 0.8, "1|i_sigma": 0.5, "sigma": 1.0}
ONES = (
    "y ~ x + h + (1 | g)",
    lambda: made(16, 10_000, 100, lambda r, e: r.random(e.size) < expit(e)),
    "bernoulli",
)
NORMAL = (
    "y ~ x + h + (x | g)",
    lambda: made(16, 10_000, 100, lambda r, e: r.normal(e), True),
    "gaussian",
)
BOTH = "y ~ x + (1 | p) + (1 | i)"
# formula, a function that makes the table, law, the numbers that made it, whether by minibatches
LARGE = {
    "million": (*ONES, BY_GROUPS, False),
    "minibatches": (*ONES, BY_GROUPS, True),
    "million-normal": (*NORMAL, BY_GROUPS | {"x|g_sigma": 0.4, "sigma": 1.0}, False),
    "crossed-large": (BOTH, lambda: rated(20_000), "gaussian", BY_BOTH, False),
    "crossed-million": (BOTH, lambda: rated(1_000_000), "gaussian", BY_BOTH, False),
}


def large(name):
    """CPU seconds to read and to fit, and how far the numbers that made the table are from the
    means, in sds."""
    text, table, family, numbers, parts = LARGE[name]
    table, begin = table(), time.process_time()
    model = vi.glmm(text, table, family)
    read, begin = time.process_time() - begin, time.process_time()
    if parts:
        fit = vi.fit(vi.ngvi(model), batch_size=100, num_steps=500, key=jax.random.key(0))
    else:
        fit = vi.auto(model, key=jax.random.key(0))
    verdict, fitted = fit.verdict, time.process_time() - begin
    table = fit.summary()
    off = [
        (table.mean[table.names.index(name)] - x) / table.sd[table.names.index(name)]
        for name, x in numbers.items()
    ]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n## {name}: `{text}`, {family}, {len(model.design.y):,} rows\n")
    print(f"read {read:.1f}, fitted {fitted:.1f} CPU seconds.", end=" ")
    print(
        verdict, "Off by", ", ".join(f"{x:+.1f}" for x in off), f"sds; {memory:.1f} GB", flush=True
    )


def bambi():
    """Means and sds of sleepstudy by Bambi, with its own priors and NUTS of PyMC, beside ours."""
    import bambi
    import pandas

    text, table, family = CASES["sleepstudy"]
    begin = time.process_time()
    draws = bambi.Model(text, pandas.DataFrame(table), family=family, categorical=["subject"]).fit(
        draws=DRAWS, tune=WARM, chains=CHAINS, cores=1, random_seed=1, progressbar=False
    )
    theirs, begin = time.process_time() - begin, time.process_time()
    model = vi.glmm(text, table, family=family)
    ours = vi.auto(model, key=jax.random.key(0), richer=True).summary(num_draws=20_000)
    print(f"CPU seconds {time.process_time() - begin:.1f}, Bambi {bambi.__version__} {theirs:.1f}")
    for name in ("Intercept", "days", "1|subject_sigma", "days|subject_sigma", "sigma"):
        x, at = draws.posterior[name].values, ours.names.index(name)
        off, ratio = (ours.mean[at] - x.mean()) / x.std(), ours.sd[at] / x.std()
        print(f"{name}: means {off:+.2f} sd apart, ratio of sds {ratio:.3f}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        bambi() if chosen == "bambi" else large(chosen) if chosen in LARGE else compared(chosen)
