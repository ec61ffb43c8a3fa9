"""A posterior that no normal fits

Two parameters that bend around each other. `vijax.auto` says that one normal will not do, and keeps
a mixture of them; the lines are the density itself, the points draws of the fit.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

log_density = lambda v: -0.5 * v["x"] ** 2 / 4 - 0.5 * (v["y"] - 0.4 * v["x"] ** 2) ** 2 / 0.25
model = vi.density({"x": vi.free(), "y": vi.free()}, log_prior=log_density)
fit = vi.auto(model, key=jax.random.key(0))
print(fit.verdict.replace(". ", ".\n"))

draws = fit.sample(jax.random.key(1), 600)
x, y = np.meshgrid(np.linspace(-6, 6, 120), np.linspace(-3, 14, 120))
figure, ax = plt.subplots(figsize=(6, 4))
ax.contour(x, y, np.exp(log_density({"x": x, "y": y})), levels=6, cmap="Blues")
ax.scatter(draws["x"], draws["y"], s=5, color="C1", alpha=0.5, label="draws of the fit")
ax.set(xlabel="x", ylabel="y", xlim=(-6, 6), ylim=(-3, 14))
ax.plot([], [], color="C0", label="the density")
ax.legend(frameon=False)
