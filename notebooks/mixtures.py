# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A mixture, from its log joint to a second opinion
#
# We write the log joint of a small mixture of normals, let coordinate ascent fit it, watch what happens, and then ask a
# sampler that shares no code with it (NUTS, of blackjax) what the posterior really is.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli,mcmc"
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
from scipy import stats

import vijax as vi
from vijax.reference import nuts

# %% [markdown]
# ## Data
#
# 150 numbers from three normals of unit variance; two of them overlap.

# %%
K = 3
rng = np.random.default_rng(1)
centres = np.array([-5.0, 0.0, 2.0])
y = (centres[rng.integers(K, size=150)] + rng.normal(size=150)).astype(np.float32)

# %% [markdown]
# ## The log joint, written once
#
# `energy` is log p(y, z, means) up to terms without unknowns, written in the *sufficient statistics* of each variable: of a
# normal its value and its square, of a label its one-hot vector. It is linear in those of each variable, which is checked
# when the model is built; every update is then a gradient of it, and no algebra is left to do.


# %%
def energy(s, y):
    fits = y * s["means"].value - 0.5 * (s["means"].square + y**2 + jnp.log(2 * jnp.pi))
    return s["z"].one_hot @ (fits - jnp.log(K))


model = vi.energy_model(
    globals={"means": vi.Normal.from_mean_variance(jnp.zeros(K), 25.0)},
    locals={"z": vi.Categorical(jnp.zeros(K))},
    energy=energy,
    example=jnp.array(0.0),
    init=vi.init.random_responsibilities(),
)

# %% [markdown]
# ## Ten starts of coordinate ascent
#
# The bound never falls, and where it ends depends on where it began (Blei, Kucukelbir and McAuliffe 2017, figure 2). `vi.fit(restarts=10)` would run
# all of them side by side in one program and keep the best; here we look at each.

# %%
algorithm = vi.cavi(model)
fits = [vi.fit(algorithm, y, num_steps=60, key=jax.random.key(i)) for i in range(10)]
best = max(fits, key=lambda fit: fit.trace["elbo"][-1])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
for fit in fits:
    left.plot(fit.trace["step"], fit.trace["elbo"])
left.set(xlabel="step", ylabel="ELBO", title="Ten random starts")

grid = np.linspace(-9, 7, 400)
q = best.posterior["means"]
right.hist(y, bins=40, density=True, color="0.85")
for mean, variance in zip(np.asarray(q.mean()), np.asarray(q.variance()), strict=True):
    right.axvline(mean, color="k", lw=1)
    right.plot(grid, stats.norm.pdf(grid, mean, np.sqrt(1 + variance)) / K)
right.set(xlabel="y", title="The best: predictive density of each component")
figure.tight_layout()

# %% [markdown]
# ## A second opinion
#
# The same model object, its labels summed out, its means sampled. A draw's components come in any order, so each draw is
# sorted.

# %%
chains = nuts(model, y, key=jax.random.key(0), num_samples=1000, warmup=500, chains=2)
draws = np.sort(np.asarray(chains.globals["means"]).reshape(-1, K), axis=1)
order = np.argsort(np.asarray(q.mean()))
found = np.asarray(q.mean())[order], np.sqrt(np.asarray(q.variance()))[order]

figure, axes = plt.subplots(1, K, figsize=(10, 3))
for k, axis in enumerate(axes):
    axis.hist(draws[:, k], bins=40, density=True, color="0.8", label="NUTS")
    near = np.linspace(draws[:, k].min(), draws[:, k].max(), 200)
    axis.plot(near, stats.norm.pdf(near, found[0][k], found[1][k]), label="mean field")
    axis.set(xlabel=f"mean {k + 1}")
axes[0].legend()
figure.tight_layout()

for k in range(K):
    print(
        f"mean {k + 1}: NUTS {draws[:, k].mean():6.3f} ± {draws[:, k].std():.3f}   "
        f"mean field {found[0][k]:6.3f} ± {found[1][k]:.3f}   true {centres[k]:.1f}"
    )

# %% [markdown]
# The locations agree. Where components overlap, mean field is too sure of them: it treats labels and means as independent,
# and so does not see that moving a centre would move labels with it. That is the price of the approximation, and what the
# structured methods (`vi.ssvi_a`, `vi.ssvi`) keep between globals and locals.
