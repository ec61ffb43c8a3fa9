"""GaP-KL-NMF: how many spectra made a spectrogram, and which (Hoffman and Blei 2015, section 4.3,
figures 4 and 5).

    python benchmarks/quality/gap_nmf.py synthetic --figure benchmarks/figures/gap_nmf.png     # twelve minutes of CPU
    python benchmarks/quality/gap_nmf.py fsdd --figure benchmarks/figures/gap_nmf_fsdd.png     # spoken digits

Synthetic: a speech-like dictionary of 257 x 50 (`vijax.data.synthetic.spectrogram`), 1000 frames, K
= 50, a = 0.25, b = 0.2, alpha = c = 1; at scale 0.1 the mean of Y is 5, at scale 1 it is 50. A
component is active when a thousandth of the counts are its own; a true spectrum is found when some
active component's mean correlates with it above 0.9. Runs start from nearly flat spectra, or from
those of columns of the data (`vijax.models.gap_nmf`, `init`). Spoken digits are read from the
folder named by VIJAX_DATA. Prints the rows of benchmarks/results_gap_nmf.md."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.data import synthetic
from vijax.families import Gamma, Product

DATA = Path(os.environ.get("VIJAX_DATA", Path(__file__).parents[3] / "shared" / "data"))
HOLD = vi.step_size.hold_then_decay


STARTS = {"flat": "flat spectra", "columns": "columns"}
Start = Product | Literal["flat", "columns"]


def model(num_rows: int, num_components: int, start: Start = "flat", rounds: int = 5) -> vi.Model:
    init = (lambda key, prior: start) if isinstance(start, Product) else start
    return vi.models.gap_nmf(
        num_rows, num_components, estep=vi.estep.mean_field(rounds, 1e-3), init=init
    )


def mean_field(y: np.ndarray, size: int, steps: int, start: Start = "flat", key: int = 0) -> vi.Fit:
    return vi.fit(
        vi.cavi(model(y.shape[1], size, start)), y, num_steps=steps, key=jax.random.key(key)
    )


def structured(
    y: np.ndarray, size: int, steps: int, start: Start = "flat", rounds: int = 20
) -> vi.Fit:
    """SSVI-A on full data: rho = 1 for two thirds of the steps, then decreasing."""
    schedule = HOLD(2 * steps // 3)
    alg = vi.whole(vi.ssvi_a(model(y.shape[1], size, start, rounds), step_size=schedule))
    return vi.fit(alg, y, num_steps=steps, key=jax.random.key(0))


ALGORITHMS = {"MF": mean_field, "SSVI-A": structured}


def shares(q: Product) -> np.ndarray:
    """Expected counts of each component, as shares of all."""
    shape = np.asarray(q["gains"].shape)
    counts = np.maximum(shape - 1.0 / len(shape), 0.0)
    return counts / counts.sum()


def active(q: Product) -> np.ndarray:
    return np.flatnonzero(shares(q) > 1e-3)


def best_correlations(truth: np.ndarray, q: Product) -> np.ndarray:
    """Of each true spectrum with its closest match among the active components."""
    standard = lambda w: (w - w.mean(0)) / (w.std(0) + 1e-12)
    found = np.asarray(q["dictionary"].mean())[:, active(q)]
    return (standard(truth).T @ standard(found) / len(truth)).max(axis=1)


def around(dictionary: np.ndarray, gains: np.ndarray) -> Product:
    """A start near given spectra: gammas of shape 100 times the spectra, and of shape 100."""
    w, theta = (jnp.asarray(np.maximum(x, 1e-3), jnp.float32) for x in (dictionary, gains))
    return Product(
        {
            "dictionary": Gamma(100 * w, jnp.full_like(w, -100.0)),
            "gains": Gamma(jnp.full_like(theta, 100.0), -100.0 / theta),
        }
    )


def means(q: Product, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(q["dictionary"].mean())[:, chosen], np.asarray(q["gains"].mean())[chosen]


def distinct(dictionary: np.ndarray, gains: np.ndarray, closest: float = 0.9) -> np.ndarray:
    """Greedily, loudest first: spectra that correlate below `closest` with all those chosen."""
    correlations, chosen = np.corrcoef(dictionary.T), []
    for k in np.argsort(-gains * dictionary.mean(0)):
        if np.all(correlations[k, chosen] < closest):
            chosen.append(k)
    return np.array(chosen)


def pooled(y: np.ndarray, size: int, restarts: int, steps: int) -> Iterator[vi.Fit]:
    """Mean field from several starts; again from the distinct spectra of all of them together; then
    pruned, smallest first, to `size`. The fits before and after pruning."""
    runs = [mean_field(y, size, steps, key=10 + r).posterior for r in range(restarts)]
    parts = [means(q, active(q)) for q in runs]
    dictionary, gains = (
        np.concatenate([w for w, _ in parts], 1),
        np.concatenate([g for _, g in parts]) / restarts,
    )
    chosen = distinct(dictionary, gains)
    fit = mean_field(y, len(chosen), steps, start=around(dictionary[:, chosen], gains[chosen]))
    yield fit
    for left in (round(1.5 * size), round(1.2 * size), size):
        largest = np.argsort(-shares(fit.posterior))[:left]
        fit = mean_field(y, len(largest), steps, start=around(*means(fit.posterior, largest)))
    yield fit


def report(
    name: str, seed: int, fit: vi.Fit, truth: synthetic.SpectrogramTruth, started: float
) -> np.ndarray:
    correlations = best_correlations(truth.dictionary, fit.posterior)
    found = int(np.sum(correlations > 0.9))
    elbo, seconds = np.mean(fit.trace["elbo"][-10:]), time.process_time() - started
    print(
        f"| {name} | {seed} | {len(active(fit.posterior))} | {found} | {elbo:,.0f} | "
        f"{seconds:.0f} |",
        flush=True,
    )
    return correlations


def synthetic_runs(seeds: list[int], restarts: int, figure: str | None) -> None:
    print("| run | seed | active | found | ELBO | CPU seconds |\n|---|---|---|---|---|---|")
    curves = {}
    for seed in seeds:
        for scale, steps in ((0.1, 300), (1.0, 400)):
            y, truth = synthetic.spectrogram(scale=scale, seed=seed)
            y, exact = y.astype(np.float32), around(truth.dictionary, np.ones(50))
            for start, words in STARTS.items():
                for name, run in ALGORITHMS.items():
                    started = time.process_time()
                    values = report(
                        f"scale {scale:g}, {name} from {words}",
                        seed,
                        run(y, 50, steps, start),
                        truth,
                        started,
                    )
                    if scale == 1:
                        curves.setdefault(f"{name} from {words}", values)
        for name, run in ALGORITHMS.items():
            started = time.process_time()
            values = report(
                f"scale 1, {name} from the truth", seed, run(y, 50, 60, exact), truth, started
            )
            curves.setdefault(f"{name} from the truth", values)
        started = time.process_time()
        for fit in pooled(y, 50, restarts, steps=250) if restarts else ():
            name = f"{restarts} runs from flat spectra pooled, K = {len(shares(fit.posterior))}"
            values = report(f"scale 1, MF, {name}", seed, fit, truth, started)
            if len(shares(fit.posterior)) == 50:
                curves.setdefault(f"MF, {name}", values)
    if figure:
        draw_correlations(curves, figure)


def draw_correlations(curves: dict[str, np.ndarray], path: str) -> None:
    import matplotlib.pyplot as plt

    fig, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name, values in curves.items():
        axis.plot(
            np.sort(values)[::-1], label=name, linestyle="--" if name.startswith("SSVI-A") else "-"
        )
    axis.axhline(0.9, color="k", linewidth=0.6)
    axis.set_xlabel("true spectrum, sorted")
    axis.set_ylabel("best correlation")
    axis.legend(fontsize=8)
    save(fig, path)


def save(fig: object, path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=72)  # type: ignore[attr-defined]


def spoken_digits(mean: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    """Magnitudes in whole quanta, `mean` to an entry: takes 0 and 1 to fit, take 4 to judge."""
    power, recordings = np.load(DATA / "fsdd_power.npz"), np.load(DATA / "fsdd.npz")
    magnitude = np.sqrt(power["S"].T.astype(np.float64))
    y = np.round(magnitude * (mean / magnitude.mean())).astype(np.float32)
    take = np.repeat(recordings["take"], np.diff(power["frame_offsets"]))
    return y[take <= 1], y[take == 4]


def fsdd_runs(figure: str | None) -> None:
    train, test = spoken_digits()
    print(f"{len(train)} frames to fit, {len(test)} held out, {train.shape[1]} frequencies\n")
    print("| run | active | held-out bound, nats a frame | CPU seconds |\n|---|---|---|---|")
    stochastic = {"num_epochs": 20, "batch_size": 256, "key": jax.random.key(0)}
    runs = {"one spectrum (K = 1), MF": lambda: mean_field(train, 1, 50)}
    for start, words in STARTS.items():
        own = model(train.shape[1], 50, start, rounds=50)
        runs |= {
            f"MF from {words}": lambda s=start: mean_field(train, 50, 200, s),
            f"SSVI-A from {words}": lambda s=start: structured(train, 50, 200, s, rounds=5),
            f"SVI, batches of 256, from {words}": lambda m=own: vi.fit(
                vi.svi(m), train, **stochastic
            ),
            f"SSVI-A, batches of 256, from {words}": lambda m=own: vi.fit(
                vi.ssvi_a(m), train, **stochastic
            ),
        }
    for name, run in runs.items():
        started = time.process_time()
        fit = run()
        held = fit.score(test, key=jax.random.key(1))
        seconds = time.process_time() - started
        print(
            f"| {name} | {len(active(fit.posterior))} | {held.mean:.1f} ± "
            f"{held.standard_error:.1f} | {seconds:.0f} |",
            flush=True,
        )
        if name == "MF from columns" and figure:
            draw_dictionary(fit.posterior, figure)


def draw_dictionary(q: Product, path: str) -> None:
    """Spectra in dB, ordered by where their mass lies, and the counts of each."""
    import matplotlib.pyplot as plt

    chosen = active(q)
    w = np.asarray(q["dictionary"].mean())[:, chosen]
    w, share = w / w.max(axis=0), shares(q)[chosen]
    order = np.argsort((np.arange(len(w)) @ w) / w.sum(0))
    fig, (top, bottom) = plt.subplots(
        2, 1, figsize=(6, 4.5), layout="constrained", height_ratios=[3, 1], sharex=True
    )
    frequencies = (-0.5, len(chosen) - 0.5, 0.0, 4.0)
    top.imshow(
        20 * np.log10(w[:, order] + 1e-3),
        origin="lower",
        aspect="auto",
        extent=frequencies,
        vmin=-50,
        interpolation="nearest",
    )
    top.set_ylabel("kHz")
    bottom.bar(np.arange(len(chosen)), share[order])
    bottom.set_ylabel("share of counts")
    bottom.set_xlabel("component")
    save(fig, path)


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("data", choices=["synthetic", "fsdd"])
    p.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    p.add_argument(
        "--restarts", type=int, default=8, help="runs of mean field that are pooled; 0: none"
    )
    p.add_argument("--figure", help="where to write the figure")
    a = p.parse_args()
    if a.data == "synthetic":
        synthetic_runs(a.seeds, a.restarts, a.figure)
    else:
        fsdd_runs(a.figure)


if __name__ == "__main__":
    main()
