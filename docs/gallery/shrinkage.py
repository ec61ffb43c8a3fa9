"""Few patients a ward

The chance of a cure in 24 wards of 4 to 35 patients: means of the wards alone (rings), and what a
regression with effects of wards says (points, 90 %): the fewer patients, the nearer to the mean of
all.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

rng = np.random.default_rng(3)
sizes = np.sort(rng.integers(3, 40, 24))
ward = np.repeat(np.arange(24), sizes)
cured = rng.logistic(size=len(ward)) < (0.4 + 0.7 * rng.normal(size=24))[ward]
model = vi.glmm("cured ~ 1 + (1 | ward)", {"cured": cured, "ward": ward})
fit = vi.auto(model, key=jax.random.key(0))
print(fit.summary())
chance = fit.predict({"ward": np.arange(24)}, key=jax.random.key(1))

figure, ax = plt.subplots(figsize=(6, 4))
error = [chance.mean - chance.low, chance.high - chance.mean]
ax.errorbar(
    range(24), chance.mean, error, fmt="o", markersize=4, linewidth=1, label="by the model, 90 %"
)
alone = [cured[ward == k].mean() for k in range(24)]
ax.plot(alone, "o", fillstyle="none", color="C1", label="the ward alone")
ax.axhline(cured.mean(), color="grey", linewidth=0.8, label="all patients")
ax.set_xticks(range(24), sizes, fontsize=7)
ax.set(xlabel="patients in the ward", ylabel="chance of a cure", ylim=(0, 1))
ax.legend(frameon=False, ncols=3, fontsize=8, loc="lower center")
