"""A smooth effect

The course of diabetes a year on, by body mass and blood pressure of 442 patients: `s(bmi)` is a
smooth function whose wiggliness is learnt. The band holds 90 %.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import vijax as vi

data = load_diabetes(scaled=False)
columns = dict(zip(data.feature_names, data.data.T, strict=True))
table = {"progression": data.target, "bmi": columns["bmi"], "bp": columns["bp"]}
model = vi.glmm("progression ~ s(bmi) + bp", table)
fit = vi.auto(model, key=jax.random.key(0))
print(fit.verdict.replace(". ", ".\n"))

bmi = np.linspace(18, 42, 60)
mean = model.predictions(fit, at={"bmi": bmi.tolist()}, key=jax.random.key(1)).to_frame()
figure, ax = plt.subplots(figsize=(6, 4))
ax.scatter(table["bmi"], table["progression"], s=8, alpha=0.35, color="grey", label="patients")
ax.plot(bmi, mean["mean"], label="mean, with 90 %")
ax.fill_between(bmi, mean["5 %"], mean["95 %"], alpha=0.25)
ax.set(xlabel="body mass index, kg/m²", ylabel="progression a year on, a score")
ax.legend(frameon=False)
