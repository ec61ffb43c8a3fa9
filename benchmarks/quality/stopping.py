"""Where `vijax.fit(tol=...)` stops on minibatches, and what was left to gain there.

    python benchmarks/quality/stopping.py [--out benchmarks/results_stopping.md] [--only "topics of
    AP" ...]

Each problem is fitted with tol until it stops by itself (or its passes are spent), and the same run
then goes on to four times as many steps. "Said" is what the rule's last look said that another
window would bring at most, the window being the last half of the run; "window" is what it did
bring; "four times" is what the last half of the run of four times the steps has more than the last
half of the run that stopped. All are shares of the objective, as tol is. Reads ap.npz, bbc.npz,
usps.npz and a1a.npz from the folder named by VIJAX_DATA. One page is written, and printed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from printed import printed

import vijax as vi
from vijax.data import Corpus

FOLDER = Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[3] / "shared" / "data"))
KEY = jax.random.key(0)


def corpus(name: str) -> Corpus:
    """Documents of a file of counts."""
    with np.load(FOLDER / f"{name}.npz") as file:
        counts = file["indptr"], file["indices"], file["counts"]
    with (FOLDER / f"{name}.vocab.txt").open(encoding="utf-8") as words:
        return Corpus(*counts, [line.strip() for line in words])


def topics(name: str, row: Callable[..., Any], **choices: Any) -> tuple[Any, Any, int | None]:
    """LDA of 20 topics."""
    documents = corpus(name)
    model = vi.models.lda(num_topics=20, vocab_size=documents.vocab_size, alpha=0.1, eta=0.1)
    return row(model, **choices), documents, 256


def mixture() -> tuple[Any, Any, int | None]:
    """Digits by their first ten principal components, in 20 clusters."""
    with np.load(FOLDER / "usps.npz") as file:
        x = file["X_milli"][~file["is_test"]].astype(np.float64) / 1000
    x -= x.mean(0)
    _, vectors = np.linalg.eigh(x.T @ x)
    emission = vi.models.emission.diagonal_gaussian(num_components=20, dim=10)
    return (
        vi.svi(vi.models.mixture(emission, concentration=0.1)),
        (x @ vectors[:, -10:]).astype(np.float32),
        256,
    )


def regression() -> tuple[Any, Any, int | None]:
    """Logistic regression of a1a, by proximal steps on minibatches."""
    with np.load(FOLDER / "a1a.npz") as file:
        x, y = file["X_train"].astype(np.float32), np.sign(file["y_train"]).astype(np.float32)
    model = vi.models.logistic_regression(x, y)
    return vi.pg_svi(model), model.data, 400


def normal() -> tuple[Any, Any, int | None]:
    """The same by `vijax.ngvi`, whose bound is of draws."""
    with np.load(FOLDER / "a1a.npz") as file:
        x, y = file["X_train"].astype(np.float32), (file["y_train"] > 0).astype(np.float32)
    model = vi.density(
        {"w": vi.free(x.shape[1])},
        log_prior=lambda v: -0.5 * (v["w"] ** 2).sum(),
        log_lik=lambda v, row: row[1] * (row[0] @ v["w"]) - jax.nn.softplus(row[0] @ v["w"]),
    )
    return vi.ngvi(model), (x, y), 200


PROBLEMS: dict[str, Callable[[], tuple[Any, Any, int | None]]] = {
    "topics of AP, `svi`": lambda: topics("ap", vi.svi),
    "topics of BBC, `svi`": lambda: topics("bbc", vi.svi),
    "topics of BBC, `ssvi_a`": lambda: topics("bbc", vi.ssvi_a, estep=vi.estep.cvb0()),
    "mixture of digits, `svi`": mixture,
    "regression of a1a, `pg_svi`": regression,
    "regression of a1a, `ngvi`": normal,
}


def stopped(name: str, tol: float, most: int) -> list[str]:
    """One line of the table."""
    alg, data, size = PROBLEMS[name]()
    fit = vi.fit(alg, data, key=KEY, num_epochs=most, batch_size=size, tol=tol)
    steps, before = int(fit.state.step), fit.trace["elbo"].astype(float)
    more = (
        vi.fit(alg, data, key=KEY, num_steps=4 * steps, batch_size=size, state=fit.state)
        .trace["elbo"]
        .astype(float)
    )
    half = steps // 2
    level = before[-half:].mean()
    share = lambda after: f"{(after.mean() - level) / abs(level):.1e}"
    passes = steps / max(1, round(steps_per_pass(alg, data, size)))
    ended = "converged" if fit.status is vi.Status.CONVERGED else "passes spent"
    said = f"{float(fit.state.watch.gain):.1e}"
    return [
        name,
        f"{tol:g}",
        ended,
        f"{passes:.0f}",
        f"{steps:,}",
        said,
        share(more[:half]),
        share(more[-2 * steps :]),
    ]


def steps_per_pass(alg: Any, data: Any, size: int | None) -> float:
    """Of a run."""
    groups = data.num_documents if isinstance(data, Corpus) else len(jax.tree.leaves(data)[0])
    return groups / size if isinstance(data, Corpus) and size else -(-groups // (size or groups))


HEAD = ["problem", "tol", "ended", "passes", "steps", "said", "window", "four times"]


def page(a: argparse.Namespace) -> Iterator[str]:
    """Line by line, as it is computed."""
    yield f"# Where fits on minibatches stop\n\n`python benchmarks/quality/stopping.py`; jax {jax.__version__}.\n"
    yield "\n\n".join((__doc__ or "").strip().split("\n\n")[2:]) + "\n"
    yield f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}"
    for name in a.only:
        for tol in a.tol:
            yield f"| {' | '.join(stopped(name, tol, a.most))} |"


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", type=Path, help="the page, as a file too")
    p.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    p.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-4])
    p.add_argument("--most", type=int, default=200, help="passes")
    a = p.parse_args()
    printed(page(a), a.out)


if __name__ == "__main__":
    main()
