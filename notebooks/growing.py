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
# # How many groups? Let the data say
#
# A mixture wants to be told how many components it has, and whoever has the data seldom knows. A Dirichlet process is told a
# number that it may not exceed, but coordinate ascent from one start finds one of many optima, and keeps components that two
# would explain better, or one. `vi.grow` finds the number by births, merges and deletes, each taken only where it raises
# the exact bound (Hughes and Sudderth 2013). We watch it on points in the plane, on handwritten digits, on the states of a
# time series, and on topics.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli"
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
from matplotlib.patches import Ellipse
from sklearn.datasets import load_digits

import vijax as vi
from vijax.models import emission

# %% [markdown]
# ## Points in the plane
#
# 2,000 points of twelve long normals. Their sizes are as 1, 1/2, 1/3, ...: the smallest has some fifty points.

# %%
rng = np.random.default_rng(0)
sizes = 1 / np.arange(1, 13)
group = rng.choice(12, size=2000, p=sizes / sizes.sum())
angle, centre = np.pi * rng.random(12), 6 * rng.normal(size=(12, 2))
along, across = 1.5 * rng.normal(size=2000), 0.25 * rng.normal(size=2000)
cos, sin = np.cos(angle)[group], np.sin(angle)[group]
points = centre[group] + np.stack([cos * along - sin * across, sin * along + cos * across], 1)


def slots(k):
    """A Dirichlet process of normals with full covariance, cut at k components."""
    return vi.models.dp_mixture(emission.full_gaussian(k, 2))


# %% [markdown]
# First the usual way: a process cut at 32 components, by coordinate ascent, from each of six random starts.


# %%
def held(fit, data):
    """Observations of each component, as the fit expects them."""
    return np.asarray(fit.locals(data, key=jax.random.key(1))["z"].probs).sum(0)


plain = [vi.fit(vi.cavi(slots(32)), points, num_steps=500, tol=1e-8, key=jax.random.key(i)) for i in range(6)]
for fit in plain:
    print(f"bound {fit.elbo:,.1f}, components that hold an observation: {np.sum(held(fit, points) > 0.5)}")

# %% [markdown]
# Each start comes to a bound of its own, and most to a component too many. Now from one component, with a callback that
# notes each move.

# %%
moves = []
grown = vi.grow(slots, points, slots=32, key=jax.random.key(0), callbacks=[moves.append])
print(f"bound {grown.trace['elbo'][-1]:,.1f}, components that hold an observation: {grown.trace['in_use'][-1]}")
for move in [m for m in moves if m.accepted and m.components][:12]:
    print(f"{move.move:7} of {move.components}: {move.gain:+9.1f} nats, {move.in_use} in use")


# %%
def ellipses(axis, fit, data, title):
    """Two standard deviations of each component that holds data, at the mean parameters."""
    means, precisions = map(np.asarray, fit.posterior["components"].mean())
    axis.scatter(*data.T, s=1, color="0.7")
    for k in np.flatnonzero(held(fit, data) > 0.5):
        sizes, axes = np.linalg.eigh(np.linalg.inv(precisions[k]))
        angle = np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
        axis.add_patch(Ellipse(means[k], 4 * sizes[1] ** 0.5, 4 * sizes[0] ** 0.5, angle=angle, fill=False, color="C3"))
    axis.set(title=title, aspect="equal", xticks=[], yticks=[])


figure, axes = plt.subplots(1, 3, figsize=(12, 4), constrained_layout=True)
ellipses(axes[0], min(plain, key=lambda fit: float(fit.elbo)), points, "the lowest of the six")
ellipses(axes[1], grown, points, "grown from one")
steps = np.cumsum([m.laps for m in moves])
axes[2].plot(steps, [m.in_use for m in moves], drawstyle="steps-post")
axes[2].set(xlabel="laps over the data", ylabel="components in use")
plt.show()

# %% [markdown]
# Is it an accident of the start? From thirty components it comes to the same twelve, by merges and deletes, and to the same
# bound.

# %%
many = vi.grow(slots, points, start=30, slots=32, key=jax.random.key(1))
print(f"from thirty: {many.trace['in_use'][-1]} components, bound {many.trace['elbo'][-1]:,.1f}")

# %% [markdown]
# ## Handwritten digits
#
# 64 pixels, on or off. The data have ten names, but a seven with a bar is not a seven without: the bound asks for more than ten
# components. A third of the pictures is held out.

# %%
digits = load_digits()
order = rng.permutation(len(digits.target))
pixels, names = (digits.data[order] > 7).astype(float), digits.target[order]
train, test = pixels[:1200], pixels[1200:]


def bernoullis(k):
    """A Dirichlet process of pixels that are independent given the component."""
    return vi.models.dp_mixture(emission.bernoulli(k, 64))


written = vi.grow(bernoullis, train, slots=32, most=64, key=jax.random.key(0))
in_use = int(written.trace["in_use"][-1])
scored = lambda fit: fit.score(test, key=jax.random.key(2)).mean
print(f"grown, {in_use} in use: bound {written.trace['elbo'][-1]:,.0f}, held-out {scored(written):.2f} nats a picture")
for k in (10, 20, 40):
    fit = vi.fit(vi.cavi(bernoullis(k)), train, restarts=5, num_steps=300, key=jax.random.key(0))
    print(f"best of five restarts, cut at {k}: bound {fit.elbo:,.0f}, held-out {scored(fit):.2f}")

# %% [markdown]
# The grown fit has the highest bound by far. Twenty and forty components predict held-out pictures better all the same: the bound
# pays for each component, by what is not known of its 64 pixels, and asks for fewer than prediction does. Where prediction is what
# counts, compare held-out scores.

# %%
group = np.asarray(written.locals(train, key=jax.random.key(1))["z"].probs).argmax(1)
figure, axes = plt.subplots(2, (in_use + 1) // 2, figsize=(11, 3), constrained_layout=True)
for axis in axes.flat:
    axis.set_axis_off()
for k, axis in enumerate(axes.flat[:in_use]):
    axis.imshow(np.asarray(written.posterior["components"].mean())[k].reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
    own = np.bincount(names[:1200][group == k], minlength=10)
    axis.set_title(f"{own.argmax()}: {own.max() / own.sum():.0%}", fontsize=8)
plt.show()

# %% [markdown]
# Above each component: the digit that most of its pictures are of, and the share of them. No fit was told of names.
#
# ## States of a time series
#
# Five sequences of a chain that stays where it is with .95; states differ in place and in spread. The number of slots is part of
# the prior of the transitions, so `slots` and `most` are the same here: bounds stay comparable.

# %%
places, spreads = np.array([[0, 0], [4, 0], [0, 4], [4, 4], [2, 2]]), np.array([0.5, 0.5, 0.5, 0.5, 1.5])
walks, states = [], []
for _ in range(5):
    path = [rng.integers(5)]
    for _ in range(299):
        path.append(path[-1] if rng.random() < 0.95 else rng.integers(5))
    states.append(np.array(path))
    walks.append(places[path] + spreads[path, None] * rng.normal(size=(300, 2)))


def chain(k):
    """A hidden Markov model that prefers to stay."""
    return vi.models.hmm(emission.full_gaussian(k, 2), transition_concentration=1 / k, stickiness=5.0)


sequences = vi.models.pad(walks)
paths = vi.grow(chain, sequences, slots=16, most=16, key=jax.random.key(0))
found = np.asarray(paths.locals(sequences, key=jax.random.key(1))["z"].probs).argmax(-1)
print(f"{paths.trace['in_use'][-1]} states in use, of {len(places)}")
table = np.zeros((5, 16), int)
np.add.at(table, (np.stack(states), found), 1)
print(
    f"{table.max(1).sum() / table.sum():.1%} of the steps lie in the state that most steps of their true state lie in"
)

figure, axis = plt.subplots(figsize=(10, 1.6), constrained_layout=True)
axis.imshow(
    np.stack([states[0], table.argmax(0)[found[0]]]), aspect="auto", cmap="tab10", vmax=9, interpolation="nearest"
)
axis.set(yticks=[0, 1], yticklabels=["true", "found"], xlabel="time")
plt.show()

# %% [markdown]
# ## Topics
#
# Documents of ten topics, the rows and the columns of a square of words. Bounds of a hierarchical Dirichlet process do not
# depend on the number of slots, so `slots` and `most` can stay as they are.

# %%
shapes = np.concatenate([np.kron(np.eye(5), np.ones((1, 5))), np.kron(np.ones((1, 5)), np.eye(5))]) + 0.01
shares = rng.dirichlet(np.full(10, 0.1), 100)
counts = np.stack([rng.multinomial(100, p) for p in shares @ (shapes / shapes.sum(1, keepdims=True))])
topics = vi.grow(
    lambda k: vi.models.hdp(k, 25, eta=0.1), vi.data.Corpus.from_counts(counts), laps_each=30, key=jax.random.key(0)
)
number = int(topics.trace["in_use"][-1])
print(f"{number} topics in use, of 10")

figure, axes = plt.subplots(1, number, figsize=(10, 1.4), constrained_layout=True)
for k, axis in enumerate(axes):
    axis.imshow(np.asarray(topics.posterior["topics"].mean())[k].reshape(5, 5), cmap="Greys")
    axis.set(xticks=[], yticks=[])
plt.show()

# %% [markdown]
# What each move does, and what it cannot do, stands in the documentation under "As many components as the data ask for"; figures
# beside restarts and beside bnpy in `benchmarks/results_growing.md`.
#
# Next: [energies](energies.ipynb), models that are written as an energy.
