"""Factors of wine, rotated

Thirteen measurements of 178 wines by three factors, rotated by varimax, so that each measurement
loads on few of them.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import vijax as vi
from vijax.models.factors.rotation import rotate

wine = load_wine()
y = (wine.data - wine.data.mean(0)) / wine.data.std(0)
model = vi.models.factor_analysis(y.shape[1], num_factors=3)
fit = vi.fit(vi.cavi(model), y, num_steps=200, key=jax.random.key(0))
loadings = rotate(fit.posterior["loadings"].mean()[:, :3], "varimax").loadings
order = np.lexsort([-np.abs(loadings).max(1), np.abs(loadings).argmax(1)])
for name, row in zip(np.array(wine.feature_names)[order], loadings[order], strict=True):
    print(f"{name:30s}", *(f"{value:6.2f}" for value in row))

figure, ax = plt.subplots(figsize=(6, 4))
image = ax.imshow(loadings[order], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
ax.set_yticks(range(13), np.array(wine.feature_names)[order], fontsize=8)
ax.set_xticks(range(3), [f"factor {k}" for k in range(3)])
figure.colorbar(image, label="loading")
