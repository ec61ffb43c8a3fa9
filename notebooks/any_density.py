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
# # Any log density, and whether to trust the fit
#
# You have a log density. `vi.auto` fits a normal to it in free coordinates, with nothing to choose, and says in words how far
# to trust it. We look at three densities of two variables, so that we can draw the exact posterior beside the fit: one that
# a normal suits, one that it does not, and one with two modes.

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
from jax.scipy.stats import norm

import vijax as vi

# %% [markdown]
# The exact density on a grid, and draws of q on top of it:


# %%
def picture(ax, density, fit, names, xlim, ylim, title):
    """Contours of the exact density of two variables, and 300 draws from q."""
    one, two = np.meshgrid(np.linspace(*xlim, 200), np.linspace(*ylim, 200), indexing="ij")
    at = lambda a, b: density({names[0]: a, names[1]: b})
    log_p = np.asarray(jax.vmap(jax.vmap(at))(jnp.asarray(one), jnp.asarray(two)))
    ax.contour(one, two, np.exp(log_p - log_p.max()), levels=[0.05, 0.2, 0.5, 0.8], colors="0.4", linewidths=1)
    draws = fit.sample(jax.random.key(1), 300)
    ax.scatter(draws[names[0]], draws[names[1]], s=6, color="tab:blue", alpha=0.5)
    ax.set(xlabel=names[0], ylabel=names[1], xlim=xlim, ylim=ylim, title=title)


# %% [markdown]
# ## A density that a normal suits
#
# Logistic regression with an intercept and a slope. `log_prior` and `log_lik` are given apart, so that minibatches would
# work too; `log_lik` is written for one row of the data.

# %%
rng = np.random.default_rng(0)
x = rng.normal(size=60)
y = np.where(rng.uniform(size=60) < 1 / (1 + np.exp(-(0.5 + 2 * x))), 1.0, -1.0)

prior = lambda v: norm.logpdf(v["intercept"], 0, 3) + norm.logpdf(v["slope"], 0, 3)
row = lambda v, r: jax.nn.log_sigmoid(r["y"] * (v["intercept"] + v["slope"] * r["x"]))
logistic = vi.density({"intercept": vi.free(), "slope": vi.free()}, log_prior=prior, log_lik=row)
good = vi.auto(logistic, {"x": x, "y": y}, key=jax.random.key(0))
print(good.verdict)
print("log evidence is at least", good.elbo)

# %% [markdown]
# ## A density that it does not
#
# A funnel: the scale of one variable depends on the other. A normal can follow either the neck or the mouth. The bound is
# well below the log evidence, which is 0 here. The k-hat alone does not see it; how much the importance ratios differ from
# their mean does, and the verdict goes by that. `richer=False` keeps to one normal. Without it `vi.auto` adds a mixture of
# normals where one is not enough, and keeps it if its bound is higher.

# %%
funnel_p = lambda v: norm.logpdf(v["log_scale"], 0, 1.5) + norm.logpdf(v["x"], 0, jnp.exp(v["log_scale"]))
funnel = vi.density({"x": vi.free(), "log_scale": vi.free()}, funnel_p)
poor = vi.auto(funnel, key=jax.random.key(0), richer=False)
print(poor.verdict)
print("log evidence 0 is at least", poor.elbo)
mixed = vi.auto(funnel, key=jax.random.key(0))
print(mixed.verdict)
print("log evidence 0 is at least", mixed.elbo)

# %% [markdown]
# Where other coordinates can be had they are better still. With x = scale * z the posterior of (z, log_scale) is normal, and the
# bound and the verdict say so.

# %%
other_p = lambda v: norm.logpdf(v["log_scale"], 0, 1.5) + norm.logpdf(v["z"])
other = vi.auto(vi.density({"z": vi.free(), "log_scale": vi.free()}, other_p), key=jax.random.key(0))
print(other.verdict)
print("log evidence 0 is at least", other.elbo)

# %% [markdown]
# ## Two modes
#
# One normal describes one of them. Eight starts look for others, and the verdict tells what they found. The mixture that
# follows begins with a normal at each.

# %%
bump = lambda v, m: norm.logpdf(v["a"], m, 0.3) + norm.logpdf(v["b"], -m, 0.3)
two_p = lambda v: jnp.logaddexp(bump(v, -1.0), bump(v, 1.0)) - jnp.log(2.0)
two = vi.auto(vi.density({"a": vi.free(), "b": vi.free()}, two_p), key=jax.random.key(0))
print(two.verdict)
for mode in two.modes:
    print({name: round(float(value), 2) for name, value in mode.values.items()}, "from", mode.num_starts, "starts")

# %%
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
exact = lambda v: prior(v) + jnp.sum(jax.vmap(lambda a, b: row(v, {"x": a, "y": b}))(jnp.asarray(x), jnp.asarray(y)))
picture(axes[0], exact, good, ("intercept", "slope"), (-1, 2), (0, 5), f"logistic: {good.report.gap:.2f} nats")
picture(axes[1], funnel_p, poor, ("x", "log_scale"), (-6, 6), (-4, 4), f"funnel: {poor.report.gap:.2f} nats")
picture(axes[2], two_p, two, ("a", "b"), (-2, 2), (-2, 2), f"two modes: {two.report.gap:.2f} nats")
plt.show()

# %% [markdown]
# The importance ratios that the k-hat is made of can correct expectations. They are never used unasked: where k-hat is
# large they make things worse. Here are both, for the mean of the slope:

# %%
weights = np.exp(vi.trust.psis(good.report.log_ratios).log_weights)
slopes = good.report.coordinates[:, 1]
print(f"plain {slopes.mean():.3f}, weighted {np.sum(weights / weights.sum() * slopes):.3f}")

# %% [markdown]
# Next: [mixtures](mixtures.ipynb), where the messages are exact, and [lda](lda.ipynb), topics of text.
