"""Effects of the structural topic model on simulated corpora: how often 90 % intervals cover the
truth.

    python benchmarks/stm.py [number of corpora] [case ...] [starts] [figure.png]
    python benchmarks/stm.py ap    # anchor words and documents as starts, on $VIJAX_DATA/ap.npz

Documents of two parties and a day; K topics whose log proportions are linear in both, with
correlated noise. The truth is least squares of the shares of 200,000 further documents on party and
day. Beside intervals by a chain stand those at fitted topics (`sweeps=0`) and those of plain
regression of the expected shares, which know nothing of the shares' uncertainty, and of the true
ones. With `starts` the fit is that of the best bound of five starts."""

import os
import sys
import time
from pathlib import Path

import jax
import numpy as np
from scipy import special
from scipy.optimize import linear_sum_assignment

import vijax as vi
from vijax.data import Corpus
from vijax.data.corpora.corpus import split_ids
from vijax.evaluate import npmi

LEVEL = 0.9
MERGED = 0.45
"""Mean distance from the true topics above which two of them were merged."""
MORE = 5
"""Words that each document has beside a Poisson number of them."""
CASES = {  # documents, mean of the Poisson law of words a document, topics, vocabulary
    "short": (500, 25, 5, 200),
    "middle": (500, 50, 5, 200),
    "usual": (500, 100, 5, 200),
    "many": (2000, 100, 10, 500),
}


def simulated(seed, docs, length, topics, words):
    rng = np.random.default_rng(seed)
    beta = rng.dirichlet(np.full(words, 0.1), topics)
    table = {
        "party": np.array(["L", "R"])[rng.integers(0, 2, docs)],
        "day": rng.uniform(0, 10, docs),
    }
    x = np.column_stack([np.ones(docs), table["party"] == "R", table["day"] - 5])
    coefficients = np.array([0.3, 0.7, 0.1])[:, None] * rng.normal(size=(3, topics))
    mixing = 0.3 * rng.normal(size=(topics, topics))
    half = 0.8 * np.linalg.cholesky(np.eye(topics) + mixing @ mixing.T)
    z = lambda x: x @ coefficients + rng.normal(size=(len(x), topics)) @ half.T
    shares = special.softmax(z(x), 1)
    sizes = rng.poisson(length, docs) + MORE
    counts = np.array(
        [rng.multinomial(n, share @ beta) for n, share in zip(sizes, shares, strict=True)]
    )
    far = np.column_stack(
        [np.ones(200_000), rng.integers(0, 2, 200_000), rng.uniform(-5, 5, 200_000)]
    )
    effects = np.linalg.lstsq(far, special.softmax(z(far), 1), rcond=None)[0].T[:, 1:]
    return Corpus.from_counts(counts), table, beta, shares, effects


def plain(shares, x):
    """Least squares of shares as if they were known."""
    b, width = np.linalg.lstsq(x, shares, rcond=None)[0], x.shape[1]
    spread = np.sqrt(np.sum((shares - x @ b) ** 2, 0) / (len(x) - width))
    sd = np.sqrt(np.diag(np.linalg.inv(x.T @ x)))[:, None] * spread
    return (b.T - 1.645 * sd.T)[:, 1:], (b.T + 1.645 * sd.T)[:, 1:]


def fitted(corpus, table, topics, seed, starts):
    """Model and fit from anchor words; with `starts` the best of it and of four from documents, by
    the bound."""
    found = []
    for start, restarts in (("anchors", 1), ("documents", 4))[: 1 + starts]:
        model = vi.stm(topics, corpus, table, "~ party + day", eta=0.1, start=start)
        fit = vi.fit(
            vi.cavi(model), model.data, num_steps=100, key=jax.random.key(seed), restarts=restarts
        )
        found.append((model, fit))
    return max(found, key=lambda pair: pair[1].trace["elbo"][-1])


def run(name, seed, starts=False):
    """Of one corpus: coverage (by chain; at fitted topics; plain on expected and on true shares),
    and more."""
    corpus, table, beta, true_shares, effects = simulated(seed, *CASES[name])
    begun = time.process_time()
    model, fit = fitted(corpus, table, len(beta), seed, starts)
    found = model.effects(fit, key=jax.random.key(seed), level=LEVEL)
    seconds = time.process_time() - begun
    fixed = model.effects(fit, key=jax.random.key(seed), level=LEVEL, sweeps=0)
    gaps = np.abs(np.asarray(fit.posterior["topics"].mean())[:, None] - beta[None]).sum(-1)
    rows, order = linear_sum_assignment(gaps)
    truth, x = effects[order], model.covariates.design.rows.x
    low, high = plain(np.asarray(fit.transform(model.data, key=jax.random.key(0))), x)
    low_known, high_known = plain(true_shares, x)
    inside = lambda low, high, truth: (low <= truth) & (truth <= high)
    return {
        "ours": inside(found.low[:, 1:], found.high[:, 1:], truth),
        "fixed": inside(fixed.low[:, 1:], fixed.high[:, 1:], truth),
        "errors": np.stack([(of.mean[:, 1:] - truth) / of.sd[:, 1:] for of in (found, fixed)]),
        "plain": inside(low, high, truth),
        "known": inside(low_known, high_known, effects),
        "found": found.mean[:, 1:],
        "truth": truth,
        "ends": np.stack([found.low[:, 1:], found.high[:, 1:]]),
        "gap": np.mean(gaps[rows, order]),
        "seconds": seconds,
    }


def main(number=20, *more):
    print(
        "| corpora | documents | words | topics | covered | `sweeps=0` | expected shares ", end=""
    )
    print("| known shares | topics off | CPU s |\n|---|---|---|---|---|---|---|---|---|---|")
    names = [name for name in more if name in CASES] or list(CASES)
    for name in names:
        docs, length, topics, _ = CASES[name]
        all_of = [run(name, 1000 + seed, "starts" in more) for seed in range(number)]
        cover = {
            of: 100 * np.mean([one[of] for one in all_of])
            for of in ("ours", "fixed", "plain", "known")
        }
        error = {
            of: 100 * np.std([one[of].mean() for one in all_of]) / np.sqrt(number) for of in cover
        }
        said = " | ".join(f"{cover[of]:.1f} ± {error[of]:.1f} %" for of in cover)
        gap, seconds = (np.mean([one[of] for one in all_of]) for of in ("gap", "seconds"))
        print(
            f"| {name} | {docs} | {length + MORE} | {topics} | {said} | {gap:.2f} | {seconds:.1f} "
            "|",
            flush=True,
        )
        clear = [one for one in all_of if one["gap"] < MERGED]
        for some, of in ((all_of, "all"), (clear, "no topics merged")):
            parts = ", ".join(f"{100 * np.mean([one[of] for one in some]):.1f}" for of in cover)
            chain, fixed = np.std([one["errors"] for one in some], (0, 2, 3))
            print(
                f"{name}, {of} ({len(some)}): {parts} %; sd of error / sd {chain:.2f}, {fixed:.2f}",
                flush=True,
            )
        for path in more:
            if path.endswith(".png"):
                drawn(all_of, path)


def two_starts():
    """Bounds, held-out scores and coherence of two starts on the documents of the Associated
    Press."""
    corpus = vi.data.read(str(Path(os.environ.get("VIJAX_DATA", ".")) / "ap.npz"))
    train, test = (corpus[rows] for rows in split_ids(corpus.num_documents, 200, 0))
    print("| start | bound per word | held-out nats per word | NPMI |\n|---|---|---|---|")
    for start in ("anchors", "documents"):
        model = vi.stm(10, train, start=start)
        fit = vi.fit(vi.cavi(model), model.data, num_steps=12, key=jax.random.key(0))
        seen = model.described(test, {"shares": np.zeros(test.num_documents)})
        held_out = fit.score(seen, key=jax.random.key(1)).mean
        coherence = npmi(fit.posterior["topics"].mean(), train).mean
        bound = float(fit.trace["elbo"][-1]) / train.num_tokens
        print(f"| {start} | {bound:.3f} | {held_out:.3f} | {coherence:.3f} |", flush=True)


def drawn(all_of, path):
    """Effects of party: found against true, with intervals."""
    import matplotlib.pyplot as plt

    truth, found = (np.concatenate([one[of][:, 0] for one in all_of]) for of in ("truth", "found"))
    low, high = np.concatenate([one["ends"][:, :, 0] for one in all_of], 1)
    figure, axes = plt.subplots(figsize=(4.5, 4.5))
    axes.errorbar(truth, found, [found - low, high - found], fmt=".", ms=3, lw=0.6, alpha=0.6)
    axes.axline((0, 0), slope=1, color="0.5", lw=0.8)
    axes.set(xlabel="true effect of party", ylabel="found, with 90 % intervals")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    if sys.argv[1:] == ["ap"]:
        two_starts()
    else:
        main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))
