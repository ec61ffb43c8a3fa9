"""Prototypes of digits

A mixture of 24 Bernoulli images on the 1,797 digits that come with scikit-learn; each picture is
the mean of a component.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import vijax as vi

digits = load_digits()
y = (digits.data > 7).astype(np.float32)
model = vi.models.mixture(vi.models.emission.bernoulli(24, dim=64))
fit = vi.fit(vi.cavi(model), y, num_steps=60, key=jax.random.key(0), restarts=4)
prototypes = np.asarray(fit.posterior["components"].mean()).reshape(-1, 8, 8)
groups = np.asarray(fit.locals(y, key=jax.random.key(1))["z"].mean()).argmax(1)
print(f"agreement with the digits (NMI) {vi.evaluate.nmi(digits.target, groups).mean:.2f}")

figure, axes = plt.subplots(3, 8, figsize=(6, 2.6))
for ax, image in zip(axes.flat, prototypes, strict=True):
    shade = ax.imshow(image, cmap="Blues", vmin=0, vmax=1)
    ax.axis("off")
figure.colorbar(shade, ax=axes, label="chance of ink")
