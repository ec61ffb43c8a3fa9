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
# # Tracks: hidden Markov models and state spaces
#
# An animal moves, rests and searches; a tracker writes where it is. A hidden Markov model finds what it was doing, a
# state-space model where it was between noisy fixes and where it will be. Both from the same few lines.

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
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import vijax as vi

# %% [markdown]
# ## What is it doing? A hidden Markov model
#
# Three animals, each with a track of its own length. At each step we have two numbers: how far it moved (logarithm) and how
# sharply it turned. Two habits: *travel* (far, straight) and *search* (near, with turns).

# %%
rng = np.random.default_rng(0)
means, spreads = np.array([[1.2, 0.0], [0.2, 0.0]]), np.array([[0.5, 0.3], [0.7, 1.0]])
tracks, habits = [], []
for length in (300, 220, 150):
    z = [0]
    for _ in range(length - 1):
        z.append(z[-1] if rng.random() < 0.94 else 1 - z[-1])
    habits.append(np.array(z))
    tracks.append(means[z] + spreads[z] * rng.normal(size=(length, 2)))
data = vi.models.pad(tracks)
print("observations", data[0].shape, "  which of them exist", data[1].shape)

# %% [markdown]
# `pad` makes one array of sequences of unequal length. `stickiness` says that habits last. Four starts run side by side.

# %%
model = vi.models.hmm(vi.models.emission.full_gaussian(num_components=2, dim=2), stickiness=5.0)
fit = vi.fit(vi.cavi(model), data, num_steps=30, restarts=4, key=jax.random.key(0))
print(fit.outcome)
print("where each habit is:", np.asarray(fit.posterior["components"].mean().mean).round(2).tolist())
print("staying:", np.diagonal(np.asarray(fit.posterior["transition"].mean())).round(3))

# %%
paths = fit.locals(data, key=jax.random.key(1))["z"]
viterbi = np.asarray(paths.mode())
search = int(np.argmin(np.asarray(fit.posterior["components"].mean().mean)[:, 0]))
wrong = np.mean(np.concatenate([(viterbi[n, : len(z)] == search) != z for n, z in enumerate(habits)]))
figure, axes = plt.subplots(2, 1, figsize=(9, 4), sharex=True, constrained_layout=True)
axes[0].plot(tracks[0][:, 0], linewidth=0.8)
axes[0].set(ylabel="log step", title=f"the first animal; {100 * wrong:.1f} % of all steps are labelled wrong")
axes[1].fill_between(np.arange(300), np.asarray(paths.probs)[0, :300, search], alpha=0.5, label="probability of search")
axes[1].plot(habits[0], color="k", linewidth=0.8, label="truth")
axes[1].set(xlabel="step")
axes[1].legend(loc="upper right")
plt.show()

# %% [markdown]
# ## Does the model make such tracks?
#
# Draw new tracks from the fit and compare how long a stretch of large steps lasts: the longest one of each data set.


# %%
def longest_travel(y):
    """The longest stretch of steps above 1 (a log length), of all tracks; padding is NaN, which is above nothing."""
    far = y[..., 0] > 1.0

    def count(run, now):
        run = jnp.where(now, run + 1, 0)
        return run, run

    return jnp.max(jax.lax.scan(count, jnp.zeros(len(far), int), far.T)[1])


check = vi.evaluate.predictive_check(
    fit, longest_travel, data, key=jax.random.key(2), num_draws=300, groups="new", name="longest stretch of travel"
)
print(check)
check

# %% [markdown]
# ## Where is it? A state-space model
#
# The position is written with noise, and sometimes not at all (NaN). A linear-Gaussian state space has a hidden state that
# moves by x' = A x + noise, and y = C x + b + noise; all of these are learnt.

# %%
steps = 120
position, speed = np.zeros((steps, 2)), np.array([0.5, 0.0])
turn = np.array([[np.cos(0.12), -np.sin(0.12)], [np.sin(0.12), np.cos(0.12)]])
for t in range(1, steps):
    speed = turn @ speed + 0.02 * rng.normal(size=2)
    position[t] = position[t - 1] + speed
fixes = position + 0.25 * rng.normal(size=position.shape)
fixes[40:50] = np.nan  # below the trees
known, ahead = fixes[:100], 20
fixes = np.concatenate([known, np.full((ahead, 2), np.nan)])  # NaN behind the end asks for a forecast
pair = (fixes[None].astype(np.float32), np.ones((1, steps), bool))

space = vi.models.linear_gaussian_state_space(dim=2, num_states=4, rate=0.05)
track = vi.fit(vi.cavi(space), pair, num_steps=150, restarts=2, key=jax.random.key(0))
draws = np.asarray(track.predictive(jax.random.key(3), 500, pair, groups="same"))[:, 0]
low, high = np.quantile(draws, [0.05, 0.95], axis=0)
print("true positions inside the 90 % band of fixes:", np.mean((position >= low) & (position <= high)).round(2))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
middle = draws.mean(0)
left.plot(*position.T, color="k", linewidth=0.8, label="truth")
left.scatter(*known.T, s=8, alpha=0.6, label="fixes")
left.plot(*middle[:100].T, color="C1", label="smoothed")
left.plot(*middle[99:].T, color="C3", label="forecast")
left.set(xlabel="east", ylabel="north", aspect="equal")
left.legend(fontsize=8)
right.fill_between(np.arange(steps), low[:, 0], high[:, 0], color="C1", alpha=0.3, label="90 % of draws")
right.plot(position[:, 0], color="k", linewidth=0.8)
right.plot(fixes[:, 0], ".", markersize=3)
right.axvspan(40, 50, color="0.9", zorder=0)
right.axvspan(100, steps, color="0.9", zorder=0)
right.set(xlabel="step", ylabel="east", title="grey: not seen")
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# The band is that of a *fix*, whose noise is in it, so that nearly all true positions lie inside. It is narrow where there are
# fixes, wider below the trees, and opens after the end. `fit.predictive(...,
# groups="same")` drew whole paths, so that any question (when does it cross a line?) can be asked of the draws.

# %% [markdown]
# Next: [switching_dynamics](switching_dynamics.ipynb), where the law of motion itself changes.
