# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # vijax inside other programs: Equinox, Flax, optax
#
# A step of vijax is a pure function, and a state is a pytree. So steps go through `jax.jit`, `scan`, `vmap` and `grad`, an
# optimiser of optax may move some of the variables, and any network may be a part of a model.

# %% tags=["hide-cell"] jupyter={"source_hidden": true}
# Where vijax is not installed (on Colab, say), upload its wheel, or a zip or a clone of its repository, beside this notebook.
# This cell then installs vijax and what it lacks, and replaces nothing that is there. It says which device computes.
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

EXTRAS = "cli,networks"
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
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx

import vijax as vi

# %% [markdown]
# ## The step itself
#
# `alg.init` makes a state, `alg.step` takes one step. Here a whole fit is one `scan`, and a hundred fits from different starts
# are one `vmap` of it.

# %%
rng = np.random.default_rng(0)
y = (rng.normal(size=(200, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, -4.0]], 50, axis=0)).astype("f4")
model = vi.models.mixture(
    vi.models.emission.unit_gaussian(4, dim=2), init=vi.init.random_responsibilities(), concentration=1.0
)
alg = vi.cavi(model)


def run(key):
    state = alg.init(key, y)

    def step(state, key):
        state, info = alg.step(key, state, y)
        return state, info.elbo

    return jax.lax.scan(step, state, jax.random.split(key, 25))


states, bounds = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 100))
best = int(jnp.argmax(bounds[:, -1]))
print("100 starts end at", np.unique(np.asarray(bounds[:, -1]).round(0)), "; the best has centres")
print(np.asarray(jax.tree.map(lambda x: x[best], states).posterior["components"].mean()).round(1))

# %% [markdown]
# ## optax beside natural gradients
#
# Any optimiser may move any global: here Adam moves the mean, and natural gradients the precision.


# %%
def energy(s, y):
    square = y**2 - 2 * y * s["mean"].value + s["mean"].square
    return 0.5 * (s["precision"].log - s["precision"].value * square - jnp.log(2 * jnp.pi))


normal = vi.energy_model(
    globals={"mean": vi.Normal.from_mean_variance(0.0, 100.0), "precision": vi.Gamma.from_shape_rate(1.0, 1.0)},
    energy=energy,
    example=0.0,
)
x = rng.normal(3.0, 2.0, 500).astype("f4")
schedule = optax.cosine_decay_schedule(0.05, 1000)
mixed = vi.cavi(normal, update={"mean": vi.update.descend(optax.adam(schedule, b2=0.9))})
exact = vi.fit(vi.cavi(normal), x, num_steps=30, key=jax.random.key(0))
found = vi.fit(mixed, x, num_steps=1000, key=jax.random.key(0))
for name in ("mean", "precision"):
    print(name, float(found.posterior[name].mean()), "and by coordinate ascent", float(exact.posterior[name].mean()))

# %% [markdown]
# ## A network of Equinox in front of a mixture
#
# The bound of a model is a differentiable function of its data. So an Equinox network that makes the data can be trained by
# it, with an optimiser of your own. Here a linear map learns to look at rows from the side that separates two groups best: a
# plain sum over rows would be satisfied by shrinking everything, so the map keeps its length.

# %%
rows = rng.normal(size=(300, 5)).astype("f4")
rows[150:, 0] += 4.0  # what tells the groups apart
rows[:, 1] *= 6.0  # a direction that is wide, and says nothing
two = vi.cavi(vi.models.mixture(vi.models.emission.diagonal_gaussian(2, dim=1), concentration=1.0))
linear = eqx.nn.Linear(5, 1, use_bias=False, key=jax.random.key(3))
optimizer = optax.adam(0.05)


def bound(network, state, key):
    weights = network.weight / jnp.linalg.norm(network.weight)
    z = rows @ weights.T
    z = (z - z.mean()) / z.std()
    state, info = two.step(key, state, z)
    return info.elbo, state


@eqx.filter_jit
def improve(network, moments, state, key):
    (value, state), slope = eqx.filter_value_and_grad(bound, has_aux=True)(network, state, key)
    change, moments = optimizer.update(jax.tree.map(jnp.negative, slope), moments)
    return eqx.apply_updates(network, change), moments, state, value


state = two.init(jax.random.key(1), rows[:, :1])
moments, trace = optimizer.init(eqx.filter(linear, eqx.is_array)), []
for step in range(200):
    linear, moments, state, value = improve(linear, moments, state, jax.random.key(step))
    trace.append(float(value))
direction = np.asarray(linear.weight / jnp.linalg.norm(linear.weight))[0]
print("the direction found:", direction.round(2))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), constrained_layout=True)
left.plot(trace)
left.set(xlabel="step", ylabel="bound, nats")
right.hist([rows[:150] @ direction, rows[150:] @ direction], bins=30, stacked=True)
right.set(xlabel="rows seen from that side", yticks=[])
plt.show()

# %% [markdown]
# ## Networks of Flax in a variational autoencoder
#
# A network is a pair `(apply, params)`; with Flax NNX `nnx.split` makes one. Points on a circle, one latent angle.


# %%
class Encoder(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(2, 32, rngs=rngs), nnx.Linear(32, 4, rngs=rngs)

    def __call__(self, x):
        mean, log_sd = jnp.split(self.out(nnx.tanh(self.hidden(x))), 2, axis=-1)
        return mean, log_sd - 1.0


class Decoder(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(2, 32, rngs=rngs), nnx.Linear(32, 2, rngs=rngs)

    def __call__(self, z):
        return self.out(nnx.tanh(self.hidden(z)))


def network(module):
    graph, params = nnx.split(module)
    return (lambda params, x: nnx.merge(graph, params)(x)), params


angle = rng.uniform(0, 2 * np.pi, 1000)
circle = (np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.normal(size=(1000, 2))).astype("f4")
vae = vi.models.vae(
    network(Encoder(nnx.Rngs(0))), network(Decoder(nnx.Rngs(1))), vi.models.observed.gaussian(sd=0.1), latent_dim=2
)
fit = vi.fit(vi.aevb(vae, learning_rate=3e-3), circle, num_epochs=200, batch_size=100, key=jax.random.key(0))
new = np.asarray(fit.predictive(jax.random.key(1), 1, 1000))[0]
figure, ax = plt.subplots(figsize=(4, 4), constrained_layout=True)
ax.scatter(*circle.T, s=3, alpha=0.3, label="data")
ax.scatter(*new.T, s=3, alpha=0.5, label="posterior predictive draws")
ax.set(aspect="equal")
ax.legend(fontsize=8)
plt.show()
radius = np.linalg.norm(new, axis=1)
print(f"radius of draws: {radius.mean():.2f} ± {radius.std():.2f}; of the data 1.00 ± 0.05")

# %% [markdown]
# The ring of draws is less sharp than that of the data: a normal prior does not know of the hole in the middle. A mixture in
# its place does better; that is the next notebook.

# %% [markdown]
# Next: [structured_vae](structured_vae.ipynb), a mixture between two networks; or [scaling](scaling.ipynb), when the data do
# not fit.
