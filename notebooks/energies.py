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
# # A model as an energy
#
# Write the log joint of a model once, in the *sufficient statistics* of its variables. Coordinate ascent, EM and Gibbs
# sampling then follow with no derivation: the complete conditional of a variable is the gradient of the energy in its
# statistics. Here: counts with too many zeros, fitted three ways, checked, and mended.

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
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

# %% [markdown]
# ## Data
#
# 300 days; on four of ten the counter was off and wrote a zero. On the others the counts are Poisson with mean 3.

# %%
rng = np.random.default_rng(0)
on = rng.random(300) < 0.6
y = np.where(on, rng.poisson(3.0, 300), 0).astype(np.float32)
print("share of zeros:", np.mean(y == 0).round(2), "  mean of the others:", y[y > 0].mean().round(2))

# %% [markdown]
# ## A first model: Poisson
#
# `stats["rate"]` holds the sufficient statistics of the gamma variable `rate`: `value` is the rate, `log` its logarithm.
# The energy is log p(y | rate) in these. It is written for *one* observation; batches are made by vijax.


# %%
def poisson_energy(stats, y):
    return y * stats["rate"].log - stats["rate"].value - jax.scipy.special.gammaln(y + 1)


def poisson_draw(values, y, key):
    """For new data: an observation given values of the variables."""
    return jax.random.poisson(key, values["rate"]).astype(float)


poisson = vi.energy_model(
    globals={"rate": vi.Gamma.from_shape_rate(1.0, 0.1)}, energy=poisson_energy, example=1.0, sample=poisson_draw
)
fit = vi.fit(vi.cavi(poisson), y, num_steps=3, key=jax.random.key(0))
print("rate:", fit.posterior["rate"].mean(), "±", fit.posterior["rate"].std())

# %% [markdown]
# The model is conjugate, so one step was exact. Is it a good model? Compare the share of zeros in the data with that in data
# that the fitted model makes (a *posterior predictive check*).


# %%
def share_of_zeros(y):
    return jnp.mean(y == 0)


check = vi.evaluate.predictive_check(fit, share_of_zeros, y, key=jax.random.key(1))
print(check)
check

# %% [markdown]
# A Poisson law cannot make so many zeros: the p-value is 0. So we say what happened on those days.
#
# ## A second model: a switch for each day
#
# `on` is a *local* variable, one for each observation: a Bernoulli whose statistics are one-hot. If the counter is off, the
# count is zero for certain. That cannot be an energy of minus infinity; we say separately how many *impossible* events a
# configuration has.


# %%
def energy(stats, y):
    counted = y * stats["rate"].log - stats["rate"].value - jax.scipy.special.gammaln(y + 1)
    off, on = stats["on"].one_hot
    return off * stats["works"].log1m + on * (stats["works"].log + counted)


def impossible(stats, y):
    return stats["on"].one_hot[0] * (y > 0)


switched = vi.energy_model(
    globals={"rate": vi.Gamma.from_shape_rate(1.0, 0.1), "works": vi.Beta.from_alpha_beta(1.0, 1.0)},
    locals={"on": vi.Categorical.from_probs([0.5, 0.5])},
    energy=energy,
    structure=vi.Structure(impossible=impossible),
    example=1.0,
    sample_locals=lambda v, y, key: {"on": jax.random.bernoulli(key, v["works"]).astype(int)},
    sample=lambda v, y, key: v["on"] * jax.random.poisson(key, v["rate"]).astype(float),
)
second = vi.fit(vi.cavi(switched), y, num_steps=30, key=jax.random.key(0))
for name in ("rate", "works"):
    low, high = second.posterior[name].interval(0.9)
    print(f"{name}: {float(second.posterior[name].mean()):.2f}, 90 % between {float(low):.2f} and {float(high):.2f}")
print(
    "a zero is a day off with probability", second.locals(y, key=jax.random.key(0))["on"].probs[y == 0][0, 0].round(2)
)

# %%
check = vi.evaluate.predictive_check(second, share_of_zeros, y, key=jax.random.key(1), groups="new")
print(check)
check

# %% [markdown]
# ## Other algorithms, the same energy
#
# EM and MAP find points; a Gibbs sampler draws from the exact posterior and shares nothing with the fit but the energy. So
# it is a good second opinion.

# %%
em = vi.fit(vi.em(switched), y, num_steps=50, key=jax.random.key(0))
draws = vi.reference.gibbs(switched, y, num_samples=800, burn_in=200, key=jax.random.key(2))
print("EM:    rate", em.estimates["rate"].mean().round(2), " works", em.estimates["works"].mean().round(2))
figure, axes = plt.subplots(1, 2, figsize=(9, 3), constrained_layout=True)
for ax, name in zip(axes, ("rate", "works"), strict=True):
    ours = np.asarray(second.sample(jax.random.key(3), 5000)[name])
    ax.hist(np.asarray(draws.globals[name]), bins=40, density=True, alpha=0.5, label="Gibbs sampling")
    ax.hist(ours, bins=40, density=True, histtype="step", linewidth=2, label="coordinate ascent")
    ax.axvline({"rate": 3.0, "works": 0.6}[name], color="k", linestyle=":", label="true")
    ax.set(xlabel=name, yticks=[])
axes[0].legend()
plt.show()

# %% [markdown]
# ## What is refused
#
# An energy must be linear in the statistics of each variable separately. One that is not is an error that names the variable:

# %%
try:
    vi.energy_model(
        globals={"rate": vi.Gamma.from_shape_rate(1.0, 1.0)},
        energy=lambda s, y: y * s["rate"].log - s["rate"].value ** 2,
        example=1.0,
    )
except ValueError as error:
    print(error)

# %% [markdown]
# Next: [sequences](sequences.ipynb), locals that depend on each other along time; or [any_density](any_density.ipynb), where
# nothing is conjugate.
