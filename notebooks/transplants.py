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
# # How long do patients live with a new heart?
#
# In the first years of heart transplants, 69 patients in Stanford were followed. Of 45 the day of death is known. The other 24
# were alive when the study ended: of them we know only that they lived longer. Leaving them out, or taking their last day for
# that of their death, would make survival look too short. Does the age at the operation matter? The table comes with
# `statsmodels`.

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
from scipy.special import gamma
from statsmodels.datasets import heart
from statsmodels.duration.survfunc import SurvfuncRight

import vijax as vi

rows = heart.load_pandas().data
died = rows.censors == 1  # the column's name says the opposite
table = pandas.DataFrame({"days": rows.survival, "age": rows.age, "status": np.where(died, "none", "right")})
print(table.status.value_counts().to_dict(), "median of days:", table.days.median())

# %% [markdown]
# ## Three laws
# `censored(days, status)` says which days are known (`none`) and which are lower bounds (`right`). In an exponential law the
# risk is the same on each day; in a Weibull law it may fall or rise; a log-normal law has a risk that falls in the end.

# %%
key = jax.random.key(0)
fits, scores = {}, {}
for family in ("exponential", "weibull", "lognormal"):
    model = vi.glmm("censored(days, status) ~ age", table, family=family)
    fits[family] = vi.auto(model, key=key)
    scores[family] = vi.trust.loo(model.log_lik(fits[family], key))
print(vi.trust.compare(scores))

# %% [markdown]
# A constant risk is clearly worse. The other two cannot be told apart by 69 patients, so we look at one of them.

# %%
fit = fits["weibull"]
print(fit.verdict)
print(fit.summary())

# %% [markdown]
# `alpha` is far below one: the risk is highest in the first weeks. Ten years of age multiply the time that a patient lives by

# %%
model = vi.glmm("censored(days, status) ~ age", table, family="weibull")
draws = model.draws(fit, jax.random.key(1), 4000).named
factor = np.exp(10 * draws["age"])
low, middle, high = np.quantile(factor, [0.05, 0.5, 0.95])
print(f"{middle:.2f}, with 90 % probability between {low:.2f} and {high:.2f}")

# %% [markdown]
# ## Does the law describe these patients?
# The steps are the estimate of Kaplan and Meier, which assumes no law. The curves are shares of patients that the model expects
# to be alive, by its own draws: of all 69, and of patients of 35 and 55 years.

# %%
days = np.linspace(0, 1800, 100)


def alive(age):
    """Share of patients of an age who live longer than `days`: draws, days."""
    mean = np.exp(draws["Intercept"] + draws["age"] * age)
    scale = mean / gamma(1 + 1 / draws["alpha"])
    return np.exp(-((days / scale[:, None]) ** draws["alpha"][:, None]))


draws = {name: np.asarray(values)[:500] for name, values in draws.items()}
seen = SurvfuncRight(table.days, died)
everybody = np.mean([alive(age) for age in table.age], axis=0)
fig, ax = plt.subplots(figsize=(7, 3.6))
ax.step(np.r_[0, seen.surv_times], np.r_[1, seen.surv_prob], "k", where="post", label="Kaplan-Meier")
for label, curve in (("all, by the model", everybody), ("35 years", alive(35)), ("55 years", alive(55))):
    low, middle, high = np.quantile(curve, [0.05, 0.5, 0.95], axis=0)
    (line,) = ax.plot(days, middle, label=label)
    ax.fill_between(days, low, high, color=line.get_color(), alpha=0.15)
ax.set(xlabel="days after the operation", ylabel="share alive, 90 %", ylim=(0, 1))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# The curve of all patients follows the steps; in the first three months these fall a little faster than it. A doctor tells a patient
# the chance of living for a year:

# %%
for age in (35, 45, 55):
    low, middle, high = np.quantile(alive(age)[:, np.searchsorted(days, 365)], [0.05, 0.5, 0.95])
    print(f"{age} years: {middle:.0%} live a year, 90 % interval {low:.0%} to {high:.0%}")

# %% [markdown]
# ## What next
# - Hospitals or surgeons are groups: `+ (1 | hospital)`.
# - An effect of age that is no straight line: `s(age)` in place of `age`.
# - Only patients who lived long enough to get a heart are in this table; a study of waiting times needs the others too. No model
#   of these 69 rows can tell that.
#
# [Next: do firms invest where the market sees value?](investment.ipynb)
