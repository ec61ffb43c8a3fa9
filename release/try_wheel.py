"""Fits topics with the vijax that is installed: `python try_wheel.py with` checks that compiled
kernels are in use, `without` that they are not."""

import platform
import sys
import sysconfig
from pathlib import Path

import jax
import numpy as np

import vijax as vi
from vijax.data import synthetic
from vijax.xla import native


def main() -> None:
    """Fits, and compares with what is true."""
    packages = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    if packages.isdisjoint(Path(vi.__file__).resolve().parents):
        raise SystemExit(f"vijax was imported from {vi.__file__}, not from what was installed.")
    expected = {"with": True, "without": False}[sys.argv[1]]
    if native.is_available() != expected:
        raise SystemExit(f"kernels in use: expected {expected}, got {not expected}.")
    error = fit_topics()
    if error > 0.1:
        raise SystemExit(f"topics are off by {error:.3f} in total variation; expected 0.1 at most.")
    print(
        f"vijax {vi.__version__}, jax {jax.__version__}, Python {platform.python_version()}, "
        f"{sysconfig.get_platform()}: kernels {'are' if expected else 'are not'} in use; topics "
        f"are off by {error:.3f} in total variation."
    )


def fit_topics() -> float:
    """The mean total variation between true topics and the nearest of a fit."""
    corpus, truth = synthetic.lda_corpus(num_documents=500, num_topics=3, vocab_size=60, seed=0)
    model = vi.models.lda(num_topics=3, vocab_size=60, alpha=0.1, eta=0.1)
    alg = vi.ssvi_a(model, estep=vi.estep.cvb0())
    fit = vi.fit(alg, corpus, num_epochs=20, batch_size=50, key=jax.random.key(0))
    topics = np.asarray(fit.posterior["topics"].mean())
    distances = np.abs(topics[:, None] - np.asarray(truth.topics)[None]).sum(axis=2) / 2
    return float(distances.min(axis=0).mean())


if __name__ == "__main__":
    main()
