"""States of a series

A hidden Markov model of three states, with sticky transitions; below the series the probability of
each state by step.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

rng = np.random.default_rng(2)
states = np.repeat([0, 1, 0, 2, 1, 2], [60, 40, 50, 60, 50, 40])
series = np.array([0.0, 2.5, -2.0])[states] + rng.normal(size=300)
model = vi.models.hmm(vi.models.emission.full_gaussian(3, dim=1), stickiness=10.0)
data = vi.models.pad([series[:, None]])
fit = vi.fit(vi.cavi(model), data, num_steps=60, key=jax.random.key(0), restarts=5)
chances = np.asarray(fit.locals(data, key=jax.random.key(1))["z"].mean())[0]
print(f"agreement with the true states (NMI) {vi.evaluate.nmi(states, chances.argmax(1)).mean:.2f}")

figure, (above, below) = plt.subplots(2, 1, figsize=(6, 4), sharex=True, height_ratios=(3, 1))
above.plot(series, linewidth=0.9)
above.set_ylabel("series")
below.stackplot(range(300), chances.T, alpha=0.8, labels=["state 0", "state 1", "state 2"])
above.legend(*below.get_legend_handles_labels(), frameon=False, ncols=3, fontsize=8)
below.set(xlabel="step", ylabel="probability", ylim=(0, 1), xlim=(0, 300))
