"""Cultivars of wine

A mixture of three normals on 178 wines and two of their measurements, the best of ten starts.
Colours are the groups, marks the cultivars, which the fit has not seen.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import vijax as vi

wine = load_wine()
y = wine.data[:, [6, 9]]  # flavanoids, intensity of colour
y = (y - y.mean(0)) / y.std(0)
model = vi.models.mixture(vi.models.emission.full_gaussian(3, dim=2))
fit = vi.fit(vi.cavi(model), y, num_steps=100, key=jax.random.key(0), restarts=10)
groups = np.asarray(fit.locals(y, key=jax.random.key(1))["z"].mean()).argmax(1)
agreement = vi.evaluate.nmi(wine.target, groups).mean
print(f"agreement with the cultivars (NMI): {agreement:.2f}")

figure, ax = plt.subplots(figsize=(6, 4))
for cultivar, mark in enumerate("o^s"):
    own = wine.target == cultivar
    colours = [f"C{k}" for k in groups[own]]
    ax.scatter(*y[own].T, c=colours, marker=mark, s=22, label=f"cultivar {cultivar + 1}")
ax.set(xlabel="flavanoids, standardised", ylabel="colour, standardised")
ax.legend(frameon=False)
