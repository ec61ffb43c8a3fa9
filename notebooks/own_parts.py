# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Parts of your own: a family, an update, a model
#
# What is not in vijax is a short class away: a family of densities, a way to move a variable, a model with its own bound.
# Each part then works with all the others.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli"
spec = importlib.util.find_spec("vijax")
if spec is None or spec.origin is None:  # not installed; a folder of that name does not count
    clones = [folder for folder in (Path(".."), Path("vijax"), Path(".")) if (folder / "vijax/app/cli.py").is_file()]
    found = [*sorted(Path(".").glob("vijax*.whl")), *sorted(Path(".").glob("vijax*.zip")), *clones]
    if not found:
        raise ImportError("vijax is not installed: put its wheel, or a zip or a clone of its repository, here")
    there = {d.name.lower(): d.version for d in importlib.metadata.distributions() if d.name}
    fixed = Path("keep-installed.txt")  # the GPU's plugin fits one version of jax only, so nothing may be replaced
    names = [n for n in there if n in {"jax", "jaxlib", "numpy", "scipy", "scikit-learn"} or n.startswith("jax-")]
    fixed.write_text("\n".join(f"{name}=={there[name]}" for name in names))
    wanted = f"vijax-vi[{EXTRAS}] @ {found[0].resolve().as_uri()}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-c", str(fixed), wanted], check=True)
    importlib.invalidate_caches()

from vijax.xla.device import device_in_use

print(device_in_use())

# %%
import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

import vijax as vi
from vijax.families.base import Family, domain_mask, family
from vijax.inference.update.base import Update

# %% [markdown]
# ## A family
#
# An exponential family is its statistics t(x) and its log normaliser A. We write the exponential law, r exp(-r x): t(x) = x,
# the natural parameter is -r, and A = -log r. There is one field for each natural parameter; its name says its sign. (This
# family is not in vijax, whose `Gamma` has it as a special case.)


# %%
class WaitingStats(NamedTuple):
    value: Array


@family
class Waiting(Family):
    """Exponential(rate): t(x) = x, A = -log rate."""

    negative_rate: Float[Array, "*batch"]
    Stats: ClassVar = WaitingStats
    event_ndims: ClassVar = (0,)

    def log_normalizer(self):
        return -jnp.log(-self.negative_rate)

    def stats(self, x):
        return WaitingStats(x)

    def sample(self, key, shape=()):
        return jax.random.exponential(key, shape + self.batch_shape) / -self.negative_rate

    def mean(self):
        return -1.0 / self.negative_rate

    def mode(self):
        return jnp.zeros_like(self.negative_rate)

    def in_domain(self):
        return domain_mask(self.negative_rate < 0, self)

    def flat(self):
        return Waiting(jnp.zeros_like(self.negative_rate))


# %% [markdown]
# Mean statistics, entropy, divergences and Fisher information follow by automatic differentiation of A. Two of them beside
# what a textbook says:

# %%
one, two = Waiting(jnp.array(-1.0)), Waiting(jnp.array(-3.0))
print("KL     ", float(one.kl(two)), " by hand", np.log(1 / 3) + 3 - 1)
print("entropy", float(two.entropy()), " by hand", 1 - np.log(3))

# %% [markdown]
# It serves as a prior at once. A machine ran for y hours without a failure: p(no failure | rate) = exp(-rate y). How often does
# it fail? The energy uses the statistic of our family, and nothing else is needed.

# %%
hours = np.array([100.0, 250.0, 30.0, 120.0], np.float32)
failures = vi.energy_model(
    globals={"rate": Waiting(jnp.array(-1.0))}, energy=lambda stats, y: -y * stats["rate"].value, example=1.0
)
fit = vi.fit(vi.cavi(failures), hours, num_steps=2, key=jax.random.key(0))
draws = np.asarray(fit.sample(jax.random.key(1), 50_000)["rate"])
print("posterior mean: one failure in", round(1 / float(fit.posterior["rate"].mean())), "hours (1 + the sum of hours)")
print("with probability 0.95 the rate is below", np.quantile(draws, 0.95).round(4), "; 3 / 501 =", round(3 / 501, 4))

# %% [markdown]
# That is the "rule of three" of statistics: no event in n trials, so the rate is below 3 / n.
#
# ## An update
#
# An update says how a variable moves towards its target (prior plus message). This one adds momentum to natural gradients. It
# remembers its last change, as a pytree.


# %%
@dataclasses.dataclass(frozen=True)
class heavy_ball(Update):
    """Natural gradients with momentum."""

    momentum: float = 0.6

    def init(self, q):
        return jax.tree.map(jnp.zeros_like, q)

    def propose(self, q, target, size, memory):
        change = jax.tree.map(lambda m, t, x: self.momentum * m + size * (t - x), memory, target, q)
        return jax.tree.map(jnp.add, q, change), change


# %% [markdown]
# Any algorithm takes it, for all globals or for some by name. Small steps on full data, with and without momentum:

# %%
rng = np.random.default_rng(0)
y = rng.normal(3.0, 2.0, 200).astype(np.float32)


def energy(s, y):  # y ~ N(mean, 1 / precision)
    square = y**2 - 2 * y * s["mean"].value + s["mean"].square
    return 0.5 * (s["precision"].log - s["precision"].value * square - jnp.log(2 * jnp.pi))


model = vi.energy_model(
    globals={"mean": vi.Normal.from_mean_variance(0.0, 100.0), "precision": vi.Gamma.from_shape_rate(1.0, 1.0)},
    energy=energy,
    example=0.0,
)
figure, ax = plt.subplots(figsize=(6, 3), constrained_layout=True)
found = {}
for name, update in (("natural gradients", vi.update.kl()), ("with momentum", heavy_ball())):
    alg = vi.cavi(model, update=update, step_size=vi.step_size.constant(0.05))
    found[name] = vi.fit(alg, y, num_steps=200, key=jax.random.key(0))
    ax.plot(found[name].trace["elbo"], label=name)
best = float(vi.fit(vi.cavi(model), y, num_steps=200, key=jax.random.key(0)).elbo)
ax.axhline(best, color="k", linestyle=":", label="coordinate ascent, at its end")
ax.set(xlabel="step", ylabel="bound, nats", ylim=(best - 12, best + 1), xlim=(0, 40))
ax.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## A model by its own bound
#
# Lifetimes of parts, some of which still work (their lifetime is *censored*: we know only that it is longer). A part that
# failed at time t says log r - r t, one that still works says -r t. `local_elbo` returns the bound of each observation and its
# locals (none here); `sample` draws an observation, so that the fit can predict.


# %%
def local_elbo(stats, part, key):
    return part["failed"] * stats["rate"].log - stats["rate"].value * part["time"], None


def draw(values, part, key):
    """How long a new part lives; it is watched until it fails."""
    return {"time": jax.random.exponential(key) / values["rate"], "failed": jnp.ones(())}


start = vi.Product({"rate": vi.Gamma.from_shape_rate(2.0, 1.0)})  # EM knows no prior, and has to begin somewhere
lifetimes = vi.model(prior=start, local_elbo=local_elbo, init=lambda key, prior: start, sample=draw)
truth, watched = rng.exponential(2.0, 500), rng.uniform(0.0, 4.0, 500)
parts = {
    "time": np.minimum(truth, watched).astype(np.float32),
    "failed": (truth < watched).astype(np.float32),
}
for name in ("em", "cavi", "ssvi"):
    fit = vi.fit(getattr(vi, name)(lifetimes), parts, num_steps=60, key=jax.random.key(0))
    print(f"{name:5s} mean life {1 / float(fit.estimates['rate'].mean()):.2f}   true 2.00")
fit = vi.fit(vi.cavi(lifetimes), parts, num_steps=5, key=jax.random.key(0))
new = {"time": np.zeros(1, np.float32), "failed": np.ones(1, np.float32)}
low, high = fit.predictive_interval(jax.random.key(2), new, level=0.9, num_draws=5000)
print(f"a new part lives between {float(low['time'][0]):.2f} and {float(high['time'][0]):.2f}, with probability 0.9")

# %%
first = {name: int(np.argmax(fit.trace["elbo"] > best - 1)) for name, fit in found.items()}
print("steps until the bound is within a nat of its end:", first)

# %% [markdown]
# `docs/extending.md` says what else a part needs to be a part of vijax: a row in its registry, and then every law is tested on
# it. Next: [lda](lda.ipynb), the first notebook, if you have not read it.
