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
# # A VAE with conjugate parts
#
# A variational autoencoder says that its latents are one normal cloud. Here they are a mixture of normals with weights,
# means and precisions of its own, all with conjugate priors, and a network bends what the mixture makes (Johnson, Duvenaud,
# Wiltschko, Datta and Adams 2016). The conjugate parts get exact natural gradients, the networks Adam, in one step.

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
import itertools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

# %% [markdown]
# ## Data
#
# The pinwheel of the paper: five arms, each of them bent. `arm` is kept for the pictures; no fit sees it.

# %%
rng = np.random.default_rng(0)
num = 1000
arm = rng.integers(5, size=num)
along, across = 1.0 + 0.3 * rng.normal(size=num), 0.05 * rng.normal(size=num)
angle = 2 * np.pi * arm / 5 + 0.25 * np.exp(along)
x = 2 * np.c_[np.cos(angle) * along - np.sin(angle) * across, np.sin(angle) * along + np.cos(angle) * across]
x = x.astype(np.float32)

# %% [markdown]
# ## Model
#
# The log joint of one observation's locals, the class `z` and the latent `u`, is written in their statistics and those of the
# globals, as for any `vi.energy_model`. It has no data: those come through the networks.


# %%
def energy(s):
    c, u = s["components"], s["u"]
    fit = 0.5 * (c.log_precision - c.precision_times_square - jnp.log(2 * jnp.pi))
    fit += c.precision_times_mean * u.value - 0.5 * c.precision * u.square
    return s["z"].one_hot @ (s["weights"].log + jnp.sum(fit, -1))


# %% [markdown]
# Five components, alike a priori. They start at k-means on what the encoder says before it has learnt. It returns potentials
# on the statistics of `u`, that is a normal without its constant: J m and -J / 2. Both networks begin near the identity.


# %%
def perceptron(key, sizes):
    keys, pairs = jax.random.split(key, len(sizes) - 1), itertools.pairwise(sizes)
    layers = [(jax.random.normal(k, s) / np.sqrt(s[0]), jnp.zeros(s[1])) for k, s in zip(keys, pairs, strict=True)]
    return [*layers[:-1], (0.1 * layers[-1][0], layers[-1][1])]


def network(layers, h):
    for w, b in layers[:-1]:
        h = jnp.tanh(h @ w + b)
    return h @ layers[-1][0] + layers[-1][1]


def potentials(params, x):
    shift, log_j = jnp.split(network(params, x), 2)
    j = jnp.exp(log_j + 2.0)
    return j * (x + shift), -0.5 * j


def decode(params, u):
    return u + network(params, u)


num_components = 5
encoder = perceptron(jax.random.key(1), [2, 40, 40, 4])
decoder = perceptron(jax.random.key(2), [2, 40, 40, 2])
observed = vi.models.observed.gaussian(sd=0.1)
model = vi.models.svae(
    globals={
        "weights": vi.Dirichlet.from_concentration(np.ones(num_components)),
        "components": vi.NormalGamma.from_parameters(np.zeros((num_components, 2)), 0.1, 2.0, 0.3),
    },
    locals={
        "z": vi.Categorical.from_logits(np.zeros(num_components)),
        "u": vi.Normal.from_mean_variance(np.zeros(2), 10.0),
    },
    energy=energy,
    latent="u",
    encoder=(potentials, encoder),
    decoder=(decode, decoder),
    observed=observed,
)
print(model)

# %% [markdown]
# ## Fit
#
# One line, as for a plain VAE; and the plain VAE of the same networks beside it.

# %%
num_steps = 5000
alg = vi.aevb(model, learning_rate=3e-3, estep=vi.estep.structured(num_sweeps=2))
fit = vi.fit(alg, x, num_steps=num_steps, batch_size=200, key=jax.random.key(0))


def mean_and_log_sd(params, x):
    shift, log_sd = jnp.split(network(params, x), 2)
    return x + shift, log_sd - 1.0


plain = vi.models.vae((mean_and_log_sd, encoder), (decode, decoder), observed, latent_dim=2)
plain_fit = vi.fit(vi.aevb(plain, learning_rate=3e-3), x, num_steps=num_steps, batch_size=200, key=jax.random.key(0))
for name, f in (("structured", fit), ("plain", plain_fit)):
    print(f"{name}: {np.mean(f.trace['elbo'][-200:]) / num:.2f} nats an observation")

# %% [markdown]
# ## Latent space
#
# `fit.locals` are the locals of each observation: its class, and its normal of `u`. On the left the means of `u` with two
# standard deviations of each component; in the middle the same ellipses, bent by the decoder, on the data; on the right
# the latents of the plain VAE. They keep the arms, for the networks begin near the identity, but nothing says which point is
# of which, and the prior, one normal cloud, holds room for what is between the arms.
#
# The components have no correlations, so the encoder straightens the arms along the axes. That takes time: after these 5,000
# steps not every arm is straight, and the ellipse of one that is not is too wide.

# %%
local = fit.locals(x, key=jax.random.key(0))
label = np.asarray(local["z"].probs).argmax(1)
purity = sum(np.bincount(arm[label == k], minlength=5).max() for k in np.unique(label)) / num
print(f"{purity:.1%} of the points are with their arm")

at = fit.posterior["components"].mean()
turn = np.linspace(0, 2 * np.pi, 100)
circle = np.c_[np.cos(turn), np.sin(turn)]
ellipses = [np.asarray(at.mean[k]) + 2 * circle / np.sqrt(np.asarray(at.precision[k])) for k in range(num_components)]

figure, axes = plt.subplots(1, 3, figsize=(12, 4), constrained_layout=True)
u = np.asarray(local["u"].mean())
axes[0].scatter(u[:, 0], u[:, 1], s=3, c=arm, cmap="tab10", vmax=9)
axes[1].scatter(x[:, 0], x[:, 1], s=3, c=arm, cmap="tab10", vmax=9)
for ellipse in ellipses:
    axes[0].plot(ellipse[:, 0], ellipse[:, 1], color="0.2", linewidth=1)
    bent = np.asarray(model.decoded(fit, ellipse))
    axes[1].plot(bent[:, 0], bent[:, 1], color="0.2", linewidth=1)
v = np.asarray(plain_fit.locals(x, key=jax.random.key(0))["z"].mean())
axes[2].scatter(v[:, 0], v[:, 1], s=3, c=arm, cmap="tab10", vmax=9)
for ax, title in zip(axes, ("latents, structured", "data, and decoded ellipses", "latents, plain"), strict=True):
    ax.set(title=title, aspect="equal")
plt.show()

# %% [markdown]
# ## What the conjugate part gives
#
# Classes, with probabilities, from data without labels. A posterior of how large each class is, and not only a point:

# %%
weights = fit.posterior["weights"]
draws = np.asarray(weights.sample(jax.random.key(0), (1000,)))
for k in range(num_components):
    low, high = np.quantile(draws[:, k], [0.05, 0.95])
    print(f"component {k}: {np.sum(label == k):4d} points, weight between {low:.3f} and {high:.3f}")

# %% [markdown]
# And new data of one class, which a plain VAE cannot be asked for: draw from the component, then decode.

# %%
figure, ax = plt.subplots(figsize=(4, 4), constrained_layout=True)
ax.scatter(x[:, 0], x[:, 1], s=2, color="0.8")
for k in range(num_components):
    new = np.asarray(at.mean[k]) + rng.normal(size=(60, 2)) / np.sqrt(np.asarray(at.precision[k]))
    made = np.asarray(model.decoded(fit, new.astype(np.float32)))
    ax.scatter(made[:, 0], made[:, 1], s=4)
ax.set(title="made, a colour for each component", aspect="equal")
plt.show()

# %% [markdown]
# Any conjugate model of the latents will do in the place of the mixture. Next: [mixtures](mixtures.ipynb), the same without
# networks, and [any_density](any_density.ipynb), what needs no conjugacy at all.
