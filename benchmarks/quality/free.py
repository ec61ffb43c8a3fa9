"""Autoencoders and guides of log densities: bounds on digits after so many passes, and speed beside
NumPyro's.

    python benchmarks/quality/free.py [--out benchmarks/results_free.md] [--only digits guides many
    nuts] [--steps 5000]

Writes one page, and prints it. Reads usps.npz and a1a.npz from the folder named by VIJAX_DATA.
NumPyro is an optional peer: without it the page has our rows alone, and says so. Float32; CPU
seconds of the process, all of its threads.

Digits: USPS, pixels above 0, 256-400-50 and back, tanh, Adam at 1e-3, batches of 128. The bound is
the evidence lower bound, the mean over the test images, of ten draws each; the tighter one weighs a
hundred draws of each.

Classes: a mixture of ten behind the same networks with ten latent variables
(`structured_digits.py`). A class is used where it is the likeliest of any test image; purity is the
share of test images of the digit most frequent in their class. No label is seen.

Guides: logistic regression of a1a (1,605 rows, 123 columns and an intercept, weights N(0, 1) a
priori), all data at each step, one draw a step, Adam at 0.01; both sides the same number of steps
from their own starts. A step's time is that of a compiled scan over all steps, the second call;
"first" is a run as its users call it (`vijax.fit`, `SVI.run`), with all it compiles, and "bar" a
second run that shows a bar of its progress. ELBOs are of 4,096 draws of what was fitted. Beside
other work on the machine a step's time varies by half from run to run: compare within one.

Many variables: `vijax.auto` beyond 300 of them, with the directions of dependence that it may take
(`vijax/automatic/ low_rank.py`) and with none. A normal of 500 variables with five common factors;
linear regressions on 500 columns, of 2,000 rows whose columns have a common factor, and of 100
rows; softmax regression of 2,000 USPS digits on 256 pixels. The last column is the root mean square
of log ratios of sds to the exact ones, where these are known.

NUTS: posteriors that no normal has the shape of (`hard_posteriors.py`). Errors of means are in
posterior sds. R-hat is the worst and the effective number of draws the least of all quantities;
beside them the share of divergent steps. An R-hat above 1.01 says that the chains themselves are
not to be trusted, as in the neck of the funnel, whose standard deviations are known: 3 of v and
e^(9/4) = 9.5 of each x."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import jax  # noqa: E402  (after the thread counts)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from hard_posteriors import HEAD as HARD  # noqa: E402
from hard_posteriors import rows as hard_rows  # noqa: E402
from jax.scipy.stats import norm  # noqa: E402
from many_variables import HEAD as MANY  # noqa: E402
from many_variables import rows as many_rows  # noqa: E402
from posterior_models import DATA  # noqa: E402
from printed import printed  # noqa: E402
from structured_digits import HEAD as STRUCTURED  # noqa: E402
from structured_digits import rows as structured_rows  # noqa: E402

import vijax as vi  # noqa: E402
from vijax.app.catalogue.parts.networks import Halves, Perceptron, first_layers  # noqa: E402
from vijax.app.settings.progress import Printer  # noqa: E402
from vijax.contract.batch import Minibatch  # noqa: E402
from vijax.fitting.to_arviz import draws_of_density  # noqa: E402

FOLDER = DATA.parent
PASSES, LATENT, HIDDEN, DRAWS = (1, 5, 10, 20), 50, 400, 4096
Rows = Iterator[list[str]]


def timed(go: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the CPU seconds that it took."""
    started = time.process_time()
    result = jax.block_until_ready(go())
    return result, time.process_time() - started


# --- digits ---------------------------------------------------------------------------------------
def digits(a: argparse.Namespace) -> Rows:
    """The bounds of an autoencoder after so many passes."""
    with np.load(FOLDER / "usps.npz") as file:
        x, is_test = (file["X_milli"] > 0).astype(np.float32), file["is_test"]
    net = Perceptron("tanh")
    encoder = (
        Halves(net, lambda mean, log_sd: (mean, log_sd)),
        first_layers([256, HIDDEN, 2 * LATENT], (a.seed, 0)),
    )
    decoder = net, first_layers([LATENT, HIDDEN, 256], (a.seed, 1))
    model = vi.models.vae(encoder, decoder, vi.models.observed.bernoulli(), latent_dim=LATENT)
    weighted = vi.estep.amortised(8, objective=vi.objective.importance_weighted())
    for name, estep in (("evidence lower bound", None), ("importance-weighted, 8 draws", weighted)):
        yield from _passes(
            name, vi.aevb(model, learning_rate=1e-3, estep=estep), model, x, is_test, a.seed
        )


def _passes(name: str, alg: Any, model: Any, x: np.ndarray, is_test: np.ndarray, seed: int) -> Rows:
    key, state, spent = jax.random.key(seed), None, 0.0
    for passes in PASSES:
        began = time.process_time()
        fit = vi.fit(alg, x[~is_test], num_epochs=passes, batch_size=128, key=key, state=state)
        spent, state = spent + time.process_time() - began, fit.state
        each = np.mean(
            [model.bound(fit, x[is_test], key=k) for k in jax.random.split(jax.random.key(1), 10)],
            axis=0,
        )
        tight = model.bound(fit, x[is_test], key=key, num_samples=100)
        steps = -(-int((~is_test).sum()) // 128)
        train = fit.trace["elbo"][-steps:].mean() / int((~is_test).sum())
        error = tight.std() / np.sqrt(len(tight))
        bounds = [f"{train:.2f}", f"{each.mean():.2f}", f"{tight.mean():.2f} ± {error:.2f}"]
        yield [name, str(passes), *bounds, f"{spent:.1f}"]


# --- guides ---------------------------------------------------------------------------------------
def design() -> tuple[np.ndarray, np.ndarray]:
    """Features with a column of ones, labels 0 and 1."""
    with np.load(FOLDER / "a1a.npz") as file:
        x = file["X_train"].astype(np.float32)
        return np.c_[x, np.ones(len(x), np.float32)], (file["y_train"] > 0).astype(np.float32)


def guides(a: argparse.Namespace) -> Rows:
    """Our rows, then the peer's."""
    x, y = design()
    model = vi.density(
        {"w": vi.free(x.shape[1])},
        log_prior=lambda v: jnp.sum(norm.logpdf(v["w"])),
        log_lik=lambda v, row: row["y"] * (row["x"] @ v["w"]) - jax.nn.softplus(row["x"] @ v["w"]),
    )
    data = {"x": x, "y": y}
    for guide in (vi.guides.mean_field(), vi.guides.full_rank()):
        kind = "independent normals" if guide == vi.guides.mean_field() else "full covariance"
        yield from _by_steps(
            kind, f"`vijax.advi`, {a.steps:,} steps", vi.advi(model, guide=guide), data, a.steps
        )
        yield from _by_numpyro(kind, x, y, a.steps)
        if guide == vi.guides.full_rank():
            yield from _by_steps(
                kind, "`vijax.ngvi`, 200 steps of 32 draws", vi.ngvi(model), data, 200
            )
        method, name = (vi.dadvi, "dadvi") if guide == vi.guides.mean_field() else (vi.auto, "auto")
        run = lambda method=method: method(model, data, key=jax.random.key(0))
        (fit, first), (_, again) = _clocked(run), _clocked(run)
        yield [
            kind,
            f"`vijax.{name}`, to its own end",
            "",
            f"{first:.1f}",
            f"{again:.2f}",
            "",
            _elbo(fit, model, data),
        ]


class Terminal(io.StringIO):
    """Nobody sees what it shows."""

    def isatty(self) -> bool:
        return True


def _clocked(go: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return go(), time.process_time() - started


def _elbo(fit: Any, model: Any, data: Any) -> str:
    _, stats = draws_of_density(fit, fit.alg.spec.model, jax.random.key(9), DRAWS, data)
    ratios = stats["lp"] - stats["lq"]
    return f"{ratios.mean():.2f} ± {ratios.std() / np.sqrt(DRAWS):.2f}"


def _by_steps(kind: str, name: str, alg: Any, data: Any, steps: int) -> Rows:
    run = lambda *callbacks: vi.fit(
        alg, data, num_steps=steps, key=jax.random.key(0), callbacks=callbacks
    )
    (fit, first), (_, again) = _clocked(run), _clocked(run)
    _, bar = _clocked(lambda: run(Printer(stream=Terminal(), unit="rows", per="row")))
    batch = Minibatch(jax.tree.map(jnp.asarray, data), None)

    @jax.jit
    def scanned(state: Any, keys: Any) -> Any:
        return jax.lax.scan(lambda s, key: (alg.step(key, s, batch)[0], None), state, keys)[0]

    state, keys = alg.init(jax.random.key(0)), jax.random.split(jax.random.key(1), steps)
    jax.block_until_ready(scanned(state, keys))
    _, seconds = timed(lambda: scanned(state, keys))
    elbo = _elbo(fit, alg.spec.model, data)
    yield [
        kind,
        name,
        f"{1e6 * seconds / steps:.0f}",
        f"{first:.1f}",
        f"{again:.2f}",
        f"{bar:.2f}",
        elbo,
    ]


def _by_numpyro(kind: str, x: np.ndarray, y: np.ndarray, steps: int) -> Rows:
    try:
        import numpyro
        from numpyro import distributions as dist
        from numpyro.infer import SVI, Trace_ELBO, autoguide
        from numpyro.optim import Adam
    except ImportError:
        yield [kind, "NumPyro: not installed", "", "", "", "", ""]
        return

    def model() -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ w).to_event(1), obs=y)

    name = "AutoNormal" if kind == "independent normals" else "AutoMultivariateNormal"
    guide = getattr(autoguide, name)(model)
    svi = SVI(model, guide, Adam(0.01), Trace_ELBO())
    run = lambda bar=False: svi.run(jax.random.key(0), steps, progress_bar=bar)
    result, first = timed(lambda: run().params)
    _, again = timed(lambda: run().params)
    with contextlib.redirect_stderr(Terminal()):
        run(True)  # another program, to be compiled
        _, bar = timed(lambda: run(True).params)
    state = svi.init(jax.random.key(0))
    scanned = jax.jit(
        lambda state: jax.lax.scan(
            lambda s, _: (svi.update(s)[0], None), state, None, length=steps
        )[0]
    )
    jax.block_until_ready(svi.get_params(scanned(state)))
    _, seconds = timed(lambda: svi.get_params(scanned(state)))
    losses = jax.vmap(lambda key: Trace_ELBO().loss(key, result, model, guide))(
        jax.random.split(jax.random.key(9), DRAWS)
    )
    elbo = f"{-float(losses.mean()):.2f} ± {float(losses.std()) / np.sqrt(DRAWS):.2f}"
    label = f"NumPyro {numpyro.__version__}, `{name}`, {steps:,} steps"
    yield [
        kind,
        label,
        f"{1e6 * seconds / steps:.0f}",
        f"{first:.1f}",
        f"{again:.2f}",
        f"{bar:.2f}",
        elbo,
    ]


# --- the page -------------------------------------------------------------------------------------
TABLES: dict[str, tuple[str, Callable[[argparse.Namespace], Rows], list[str]]] = {
    "digits": (
        "Digits by an autoencoder: nats an image",
        digits,
        [
            "objective",
            "passes",
            "objective, training",
            "bound, test",
            "test, 100 weighted draws",
            "CPU s so far",
        ],
    ),
    "structured": (
        "Digits by a mixture behind two networks",
        lambda a: structured_rows(FOLDER, a.seed),
        STRUCTURED,
    ),
    "guides": (
        "Guides of a log density: a1a",
        guides,
        ["q", "method", "µs a step", "CPU s, first", "again", "bar", "ELBO"],
    ),
    "many": ("Many variables", lambda a: many_rows(FOLDER, a.seed), MANY),
    "nuts": ("`vijax.auto` beside NUTS", lambda a: hard_rows(a.samples, a.seed), HARD),
}


def page(a: argparse.Namespace) -> Iterator[str]:
    """Line by line, as it is computed."""
    number = len(os.sched_getaffinity(0))
    cores = "one core" if number == 1 else f"{number} cores"
    command = "python benchmarks/quality/free.py" + (
        "" if a.steps == 5000 else f" --steps {a.steps}"
    )
    yield f"# Autoencoders, and guides of log densities\n\n`{command}`; jax {jax.__version__}, {cores}, float32.\n"
    yield "\n\n".join((__doc__ or "").strip().split("\n\n")[3:]) + "\n"
    for name in a.only:
        title, rows, head = TABLES[name]
        yield f"## {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}"
        for row in rows(a):
            yield f"| {' | '.join(row)} |"
        yield ""


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, help="the page, as a file too")
    p.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    p.add_argument("--steps", type=int, default=5000)
    p.add_argument(
        "--samples",
        type=int,
        default=4000,
        help="draws of each chain of NUTS, after as many of warmup",
    )
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    printed(page(a), a.out)


if __name__ == "__main__":
    main()
