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
# # Gaussian processes and GLMs by proximal-gradient steps
#
# A likelihood that is not conjugate (counts, labels) on a Gaussian predictor. Each observation becomes a *site*, a Gaussian
# factor, and a proximal-gradient step moves the sites in closed form: no sampling, no tuning of a learning rate.

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
# ## Counts along a line: a Gaussian process
#
# 150 counts whose logarithmic mean is a smooth curve. Nothing is observed between 4 and 6.

# %%
rng = np.random.default_rng(0)
curve = lambda x: 1.0 + np.sin(1.5 * x) + 0.1 * x
x = rng.uniform(0, 10, size=(150, 1))
x = x[(x[:, 0] < 4) | (x[:, 0] > 6)]
y = rng.poisson(np.exp(curve(x[:, 0]))).astype(float)

# %% [markdown]
# A kernel by name has two hyperparameters, `scale` and `length`, which are learnt in the same steps.

# %%
model = vi.models.gp(x, y, "matern52", vi.likelihood.poisson_log(), jitter=1e-3)
fit = vi.fit(vi.pg_svi(model, learn=("scale", "length")), model.data, num_steps=150, key=jax.random.key(0))
print(fit.outcome, {name: round(float(value), 2) for name, value in fit.state.hyper.items()})

# %% [markdown]
# Two kinds of intervals: of the *mean* of the counts, from the predictor; and of a new *count*, from posterior predictive
# draws, which have the noise of the counts too.

# %%
grid = np.linspace(0, 10, 101)[:, None]
mean, variance = model.predict(fit.posterior, grid)
low, high = fit.predictive_interval(jax.random.key(1), grid, level=0.9)
figure, ax = plt.subplots(figsize=(8, 3.5), constrained_layout=True)
ax.plot(x[:, 0], y, ".", color="0.4", markersize=4, label="counts")
ax.plot(grid[:, 0], np.exp(curve(grid[:, 0])), "k:", label="true mean")
spread = 1.645 * np.sqrt(variance)
ax.fill_between(grid[:, 0], np.exp(mean - spread), np.exp(mean + spread), alpha=0.5, label="90 % of the mean")
ax.fill_between(grid[:, 0], low, high, alpha=0.2, color="C1", label="90 % of a new count")
ax.set(xlabel="x", ylabel="count", ylim=(0, 25))
ax.legend(fontsize=8, ncols=2)
plt.show()

# %%
new = rng.uniform(0, 4, size=(500, 1))
counts = rng.poisson(np.exp(curve(new[:, 0])))
ends = fit.predictive_interval(jax.random.key(2), new, level=0.9, num_draws=1000)
print("new counts inside their 90 % intervals:", np.mean((counts >= ends[0]) & (counts <= ends[1])).round(2))

# %% [markdown]
# ## Is the Poisson law right?
#
# The variance of the counts about their mean, beside that of replicated counts. The statistic reads the predictor `z`, so it
# is a *discrepancy*: each draw compares data and replicated data at the same curve.


# %%
def pearson(y, values):
    """Squared residuals over their variance."""
    rate = jnp.exp(values["z"])
    return jnp.mean((y - rate) ** 2 / rate)


check = vi.evaluate.predictive_check(fit, pearson, model.data, key=jax.random.key(3), num_draws=500)
print(check)
check

# %% [markdown]
# ## Labels and many rows: logistic regression in minibatches
#
# `memory=True` keeps the last message of every site, so that large steps with small batches converge in a few passes.

# %%
weights = np.array([1.5, -2.0, 0.0, 0.5])
rows = rng.normal(size=(20_000, 4)).astype(np.float32)
labels = np.where(rng.random(20_000) < 1 / (1 + np.exp(-rows @ weights)), 1.0, -1.0)
glm = vi.models.logistic_regression(rows[:18_000], labels[:18_000])
small = vi.fit(
    vi.pg_svi(glm, memory=True, inner_steps=4), glm.data, num_epochs=3, batch_size=1000, key=jax.random.key(0)
)
found, variance = glm.predict(small.posterior, jnp.eye(4))  # unit vectors: the weights themselves
for k in range(4):
    print(f"weight {k}: {found[k]:6.3f} ± {np.sqrt(variance[k]):.3f}   true {weights[k]:.1f}")
print("held out:", small.score((rows[18_000:], labels[18_000:]), key=jax.random.key(0)))

# %% [markdown]
# ## Many inputs: inducing points
#
# A kernel of N inputs takes N x N numbers. A few *inducing* inputs stand for them.

# %%
many = rng.uniform(0, 10, size=(2000, 1))
many_y = rng.poisson(np.exp(curve(many[:, 0]))).astype(float)
values = {"scale": float(fit.state.hyper["scale"]), "length": float(fit.state.hyper["length"])}
sparse = vi.models.gp(
    many, many_y, "matern52", vi.likelihood.poisson_log(), hyper=values, jitter=1e-3,
    inducing=np.linspace(0, 10, 40)[:, None],
)  # fmt: skip
large = vi.fit(vi.pg_svi(sparse), sparse.data, num_steps=30, key=jax.random.key(0))
error = np.abs(np.asarray(sparse.predict(large.posterior, grid)[0]) - curve(grid[:, 0]))
print("2,000 counts by 40 inducing inputs: mean error of the logarithm", error.mean().round(3))

# %% [markdown]
# Next: [networks](networks.ipynb), vijax inside programs of Equinox, Flax and optax.
