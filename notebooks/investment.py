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
# # Do firms invest where the market sees value?
#
# Grunfeld followed eleven American firms from 1935 to 1954: what each invested in a year, its value on the stock market, and
# its stock of plant and equipment, in millions of dollars of 1947. If a firm is worth 1 % more, does it invest more, and how
# much more? Is the answer the same for General Motors and for Diamond Match? The table comes with `statsmodels`.

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
import pandas
from statsmodels.datasets import grunfeld

import vijax as vi

firms = grunfeld.load_pandas().data
firms["year"] = firms["year"].astype(int)
print(firms.groupby("firm")[["invest", "value", "capital"]].median().sort_values("value"))

# %% [markdown]
# Firms differ by a factor of a hundred in size. So all three columns are taken as logarithms: a coefficient is then an
# elasticity, the per cent by which investment changes for 1 % of the column.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for name, rows in firms.groupby("firm"):
    left.plot(rows.value, rows.invest, ".", label=name)
    right.plot(rows.capital, rows.invest, ".")
left.set(xscale="log", yscale="log", xlabel="value", ylabel="investment")
right.set(xscale="log", xlabel="capital")
fig.legend(*left.get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)
plt.show()

# %% [markdown]
# ## One slope for all firms
# Each firm has a level of its own. The slopes are common.

# %%
key = jax.random.key(0)
common = vi.glmm("log(invest) ~ log(value) + log(capital) + (1 | firm)", firms)
first = vi.auto(common, key=key)
print(first.verdict)
print(first.summary())

# %% [markdown]
# The verdict says that means and sds can be used. An answer so far: 1 % more value goes with .6 % more investment.
#
# ## Slopes that differ
# The pictures do not look like parallel lines. Now each firm has slopes of its own, drawn from a common law.

# %%
model = vi.glmm("log(invest) ~ log(value) + log(capital) + (log(value) + log(capital) || firm)", firms)
fit = vi.auto(model, key=key, max_gradients=12_000)
print(fit.verdict)
print(fit.summary())

# %% [markdown]
# Which of the two describes the data? Leave-one-out scores need no new fit:

# %%
scores = {
    "common slopes": vi.trust.loo(common.log_lik(first, key)),
    "slopes by firm": vi.trust.loo(model.log_lik(fit, key)),
}
print(vi.trust.compare(scores))

# %% [markdown]
# Slopes by firm are better by four standard errors. (The line on terms that are not reliable names rows that pull hard at the
# fit: the difference is much larger than what they can move.) So there is no one elasticity. Here are those of each firm.

# %%
slopes = pandas.DataFrame(model.effects_by_group(fit, key=jax.random.key(1), total=True).to_frame())
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
order = slopes[slopes.effect == "log(capital)"].sort_values("mean").group
for ax, name in zip(axes, ["log(value)", "log(capital)"], strict=True):
    part = slopes[slopes.effect == name].set_index("group").loc[order]
    error = [part["mean"] - part["5 %"], part["95 %"] - part["mean"]]
    ax.errorbar(part["mean"], range(len(part)), xerr=error, fmt="o")
    ax.axvline(0, color="0.8", zorder=0)
    ax.set(xlabel=f"elasticity to {name[4:-1]}, 90 %")
axes[0].set_yticks(range(len(order)), order)
plt.show()

# %% [markdown]
# ## In dollars
# What would a reader of a newspaper ask? If the value of each firm were 10 % higher, by what factor would its investment
# differ?

# %%
higher = firms.assign(value=1.1 * firms.value)
ratio = np.exp(fit.predict(higher, key=key).mean - fit.predict(firms, key=key).mean)
print(pandas.Series(np.asarray(ratio), firms.firm).groupby(level=0, sort=False).mean().round(3))

# %% [markdown]
# ## What next
# - A firm that is not in the table: `fit.predict` takes its rows, and its interval has the spread of firms in it.
# - Years are not exchangeable: the war is in these data. `+ s(year)` gives all firms a smooth course in time.
# - `model.comparisons(fit, "value", key=key)` and the other answers are in the how-to on effects.
#
# [Next: the states of an economy](business_cycle.ipynb)
