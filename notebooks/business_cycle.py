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
# # When was the economy in recession?
#
# A committee decides when the United States were in a recession, many months later. Can two numbers of each quarter tell: how
# fast output grew, and how unemployment changed? A hidden Markov model has a state for each quarter, which tends to stay, and a
# law of the two numbers in each state. It is told no dates. The table, 1959 to 2009, comes with `statsmodels`.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli,examples"
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
from statsmodels.datasets import macrodata

import vijax as vi

table = macrodata.load_pandas().data
growth = 400 * np.diff(np.log(table.realgdp))  # per cent a year
jobless = np.diff(table.unemp)  # points of a per cent
when = (table.year + (table.quarter - 1) / 4).to_numpy()[1:]
rows = np.c_[growth, jobless]
print(len(rows), "quarters; mean growth", growth.mean().round(2), "sd", growth.std().round(2))

# %% [markdown]
# ## How many states?
# Each number of states learns from the quarters up to 1989, and is scored on those after it. The bound of all quarters counts what
# a further state costs, too.

# %%
key = jax.random.key(0)
old = when < 1990
emission = vi.models.emission


def fit_states(states, rows):
    laws = emission.placed(emission.full_gaussian, states, rows)
    model = vi.models.hmm(laws, stickiness=5.0, init=vi.init.local_draws())
    return vi.fit(vi.cavi(model), vi.models.pad([rows]), num_steps=100, restarts=5, key=key)


for states in (2, 3, 4):
    score = fit_states(states, rows[old]).score(vi.models.pad([rows[~old]]), key=key)
    bound = float(fit_states(states, rows).elbo)
    print(f"{states} states: held out {float(score.mean):.3f} nats a quarter, bound of all quarters {bound:.1f}")

# %% [markdown]
# Two and three states predict equally well, and the bound prefers three.
#
# ## Three states
# Now with all quarters.

# %%
data = vi.models.pad([rows])
fit = fit_states(3, rows)
print(fit.verdict)
local = fit.locals(data, key=key)["z"]
states = np.asarray(local.mode())[0]
order = np.argsort([growth[states == k].mean() for k in range(3)])
for name, k in zip(["worst", "middle", "best"], order, strict=True):
    part = rows[states == k]
    print(f"{name:6} {len(part):3} quarters, growth {part[:, 0].mean():5.2f} %, unemployment {part[:, 1].mean():+.2f}")

# %% [markdown]
# The verdict lists what was not checked, and how to check it. Here the committee is a check that no statistic can replace: its
# recessions are grey, the model's probability of the worst state is the line.

# %%
recessions = [(1960.25, 1961.0), (1969.75, 1970.75), (1973.75, 1975.0), (1980.0, 1980.5)]
recessions += [(1981.5, 1982.75), (1990.5, 1991.0), (2001.0, 2001.75), (2007.75, 2009.25)]
chance = np.asarray(local.probs)[0, :, order[0]]
fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 4), sharex=True, layout="constrained")
top.plot(when, growth, lw=1)
top.set(ylabel="growth, % a year")
bottom.plot(when, chance)
bottom.set(ylabel="P(worst state)", ylim=(0, 1), xlabel="year")
for ax in (top, bottom):
    for begin, end in recessions:
        ax.axvspan(begin, end, color="0.85", zorder=0)
plt.show()
official = np.any([(when >= begin) & (when <= end) for begin, end in recessions], axis=0)
print(f"agreement with the committee: {np.mean((chance > 0.5) == official):.0%} of the quarters;", end=" ")
print(f"{official.sum()} quarters of recession by the committee, {(chance > 0.5).sum()} by the model")

# %% [markdown]
# ## How long does a recession last?
# The chance of staying says how long a state lasts, with its uncertainty.

# %%
stay = np.asarray(fit.sample(jax.random.key(1), 2000)["transition"])[:, range(3), range(3)]
for name, k in zip(["worst", "middle", "best"], order, strict=True):
    low, middle, high = np.quantile(1 / (1 - stay[:, k]), [0.05, 0.5, 0.95])
    print(f"{name:6} {middle:4.1f} quarters on average, 90 % interval {low:.1f} to {high:.1f}")

# %% [markdown]
# ## What next
# - Quarters to come: `fit.forecast(key, 1000, data, 4)`.
# - Months in place of quarters, or states known for some of them: see the models of sequences in *what is here*.
# - Paths that move by laws of their own in each state: the tutorial on [laps of a track](switching_dynamics.ipynb).
#
# [Next: patients with a new heart](transplants.ipynb)
