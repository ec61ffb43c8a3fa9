"""Blocks of a graph

A network of 120 people, shuffled; a stochastic block model finds who belongs together. The links as
a matrix, before and after its rows are sorted by block.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

rng = np.random.default_rng(0)
truth = rng.integers(0, 4, 120)
chance = np.where(truth[:, None] == truth, 0.3, 0.04)
links = np.triu(rng.uniform(size=(120, 120)) < chance, 1)
links = links | links.T
graphs = links[None].astype(float)
model = vi.models.stochastic_block_model(num_blocks=4)
fit = vi.fit(vi.cavi(model), graphs, num_steps=40, key=jax.random.key(0))
blocks = np.asarray(fit.locals(graphs, key=jax.random.key(1))["z"].mode())[0]
print(f"agreement with the truth (NMI) {vi.evaluate.nmi(truth, blocks).mean:.2f}")

figure, axes = plt.subplots(1, 2, figsize=(6, 3.2))
order = np.argsort(blocks, kind="stable")
axes[0].imshow(links, cmap="Blues")
axes[0].set_title("links, people as they came", fontsize=10)
axes[1].imshow(links[order][:, order], cmap="Blues")
axes[1].set_title("the same, by block", fontsize=10)
for ax in axes:
    ax.axis("off")
