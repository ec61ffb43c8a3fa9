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
# # A regression of patients in clinics, from formula to decision
#
# Patients in 40 clinics recover or stay ill. Does the dose help, by how much, and does that differ from clinic to clinic?
# `vi.glmm` takes the formula that one would give to lme4 or Bambi. Effects of clinics are integrated out, so the interval of
# their spread is not too narrow, as it would be by mean field. The data are made here, so we know the truth: log odds rise
# by 0.8 with the dose on average, with standard deviations of 0.8 (intercepts) and 0.4 (slopes) between clinics.

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
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi
from vijax.data.tables.table_files import read_columns

table = dict(read_columns("synthetic:clinics", num_rows=2000))
print({name: values[:3].tolist() for name, values in table.items()})

# %% [markdown]
# ## The fit
# "recovered" comes after "ill" in the alphabet, so it is the category whose probability is modelled. The priors are weakly
# informative, 2.5 wide for a category behind a logit; each can be changed by its name.

# %%
model = vi.glmm("outcome ~ dose + (dose | clinic)", table, family="bernoulli")
for name, prior in model.priors.items():
    print(f"{name:22}", prior)

# %%
fit = vi.auto(model, model.data, key=jax.random.key(0), richer=True, max_gradients=8000)
print(fit.verdict)
fit.summary()

# %% [markdown]
# One more unit of dose multiplies the odds of recovery by:

# %%
draws = model.draws(fit, jax.random.key(1), 1000)
low, middle, high = np.quantile(np.exp(draws.named["dose"]), [0.05, 0.5, 0.95])
print(f"{middle:.2f}, between {low:.2f} and {high:.2f} with 90 % probability; the truth is {np.exp(0.8):.2f}")

# %% [markdown]
# ## Clinics
# Each clinic has its own intercept and slope. Small clinics are drawn towards the average of all.

# %%
u = draws.effects["clinic"]  # draws, clinics, (intercept, dose)
slopes = draws.named["dose"][:, None] + u[:, :, 1]
sizes = np.unique(table["clinic"], return_counts=True)[1]
order = np.argsort(slopes.mean(0))
low, high = np.quantile(slopes, [0.05, 0.95], axis=0)
fig, ax = plt.subplots(figsize=(8, 3))
ax.vlines(np.arange(len(order)), low[order], high[order], color="0.7")
points = ax.scatter(np.arange(len(order)), slopes.mean(0)[order], c=sizes[order], zorder=3)
ax.axhline(draws.named["dose"].mean(), color="tab:red", lw=1)
ax.set(xlabel="clinics, by slope", ylabel="slope of dose, 90 %")
fig.colorbar(points, label="patients")
plt.show()
# %% [markdown]
# ## Does it describe the data?
# Replicated data should look like the data. Here: the share that recovers, clinic by clinic, and how it spreads.

# %%
replicas = model.replicated(fit, jax.random.key(2), 500)
codes = np.unique(table["clinic"], return_inverse=True)[1]
shares = lambda y: np.array([np.bincount(codes, row) / sizes for row in np.atleast_2d(y)]).std(1)
seen, drawn = shares(model.design.y)[0], shares(replicas)
print(f"spread of shares between clinics: {seen:.3f}; in replicas {drawn.mean():.3f} ± {drawn.std():.3f}")

# %% [markdown]
# ## Do slopes differ between clinics?
# Leave-one-out scores of both formulas, without fitting anything again (Vehtari, Gelman and Gabry 2017). The difference is
# judged by its standard error, over the same patients.

# %%
scores = {}
for text in ("outcome ~ dose + (1 | clinic)", "outcome ~ dose + (dose | clinic)"):
    other = vi.glmm(text, table, family="bernoulli")
    found = vi.auto(other, other.data, key=jax.random.key(0), richer=True)
    scores[text] = vi.trust.loo(other.log_lik(found, jax.random.key(3), 1000))
print(vi.trust.compare(scores))

# %% [markdown]
# ## Predictions
# The probability of recovery by dose, in a clinic that we know and in one that we have never seen.

# %%
dose = np.linspace(-2, 2, 25)
fig, ax = plt.subplots(figsize=(6, 3))
for clinic, color in ((table["clinic"][0], "tab:blue"), ("a new one", "tab:orange")):
    name = str(int(clinic)) if isinstance(clinic, float) else clinic
    seen = fit.predict({"dose": dose, "clinic": np.full(25, name)}, key=jax.random.key(4))
    ax.plot(dose, seen.mean, color=color, label=f"clinic {name}")
    ax.fill_between(dose, seen.low, seen.high, color=color, alpha=0.2)
ax.set(xlabel="dose", ylabel="P(recovered), 90 %")
ax.legend()
plt.show()
