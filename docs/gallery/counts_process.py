"""A rate behind counts

A Gaussian process of the logarithm of a rate, learnt from counts: the likelihood is not conjugate,
the steps are closed.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 120))[:, None]
true_rate = lambda x: np.exp(1 + np.sin(1.5 * x[:, 0]))
y = rng.poisson(true_rate(x)).astype(float)
model = vi.models.gp(x, y, "matern32", vi.likelihood.poisson_log())
fit = vi.fit(vi.pg_svi(model), model.data, num_steps=100, key=jax.random.key(0))
places = np.linspace(0, 10, 200)[:, None]
mean, variance = map(np.asarray, model.predict(fit.posterior, places))
middle = np.exp(mean)
low, high = (np.exp(mean + sign * 1.645 * np.sqrt(variance)) for sign in (-1, 1))
inside = np.mean((low < true_rate(places)) & (true_rate(places) < high))
print(f"the true rate lies in the 90 % band at {inside:.0%} of the places")

figure, ax = plt.subplots(figsize=(6, 4))
ax.plot(x, y, ".", color="grey", alpha=0.5, label="counts")
ax.plot(places, middle, label="rate, with 90 %")
ax.fill_between(places[:, 0], low, high, alpha=0.25)
ax.plot(places, true_rate(places), "--", color="C1", linewidth=1, label="true rate")
ax.set(xlabel="place", ylabel="counts, and their rate")
ax.legend(frameon=False)
