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
# # What to read next: recommendations
#
# 1,500 readers have borrowed some of 400 books. Which will each of them like next, what do we tell a reader who has borrowed
# nothing yet, and is any of it better than a list of the most popular books? Hierarchical Poisson factorisation (Gopalan, Hofman
# and Blei 2015) costs what was borrowed, not readers times books. The library is made here, so we know the truth.

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
import optax
import scipy.sparse as sp

import vijax as vi

# %% [markdown]
# ## A library
#
# Six genres. A reader has one or two of them, more likely some of them by age; some readers borrow much, most of them little. A
# few books of each genre are borrowed often (Zipf's law).

# %%
GENRES = ["crime", "romance", "history", "science", "fantasy", "poetry"]
rng = np.random.default_rng(0)
num_readers, num_books = 1500, 400
genre = rng.integers(6, size=num_books)
fame = 1 / (1 + np.argsort(np.argsort(rng.random(num_books))) % 60)
names = np.array([f"{GENRES[g]} {i}" for i, g in enumerate(genre)])
age = rng.uniform(15, 85, num_readers)
by_age = np.stack([30 + 0 * age, 70 - 0.8 * age, 0.9 * age - 10, 25 + 0 * age, 90 - 1.4 * age, 5 + 0.2 * age], 1).clip(
    2
)
tastes = rng.gamma(0.02 * by_age)  # small shapes: one or two genres each
tastes /= tastes.sum(1, keepdims=True)
chance = tastes[:, genre] * fame
chance *= (rng.lognormal(2.3, 0.8, num_readers) / chance.sum(1))[:, None]
borrowed = sp.csr_array(rng.poisson(chance).clip(0, 1))
readers = np.flatnonzero(np.diff(borrowed.indptr) > 0)
borrowed, age, tastes = borrowed[readers], age[readers], tastes[readers]
print(
    f"{borrowed.shape[0]} readers x {borrowed.shape[1]} books, {borrowed.nnz} borrowed, {borrowed.nnz / np.prod(borrowed.shape):.1%}"
)

# %% [markdown]
# A fifth of what each reader borrowed is hidden; the last 200 readers are kept for later, as if they were new.

# %%
old, new = np.arange(borrowed.shape[0] - 200), np.arange(borrowed.shape[0] - 200, borrowed.shape[0])
kept, hidden = vi.evaluate.hide(borrowed[old], 0.2, seed=0)
popular = np.asarray(kept.sum(axis=0), float).reshape(-1, 1)
everyone = np.ones((len(old), 1))

# %% [markdown]
# ## How many components?
#
# What is hidden is ranked among all books that a reader has not had. NDCG and recall at 20, beside popularity.

# %%
found = {"popularity": vi.evaluate.ranking(everyone, popular, kept, hidden)}
fits = {}
for number in (3, 6, 12):
    model = vi.models.hpf(number, num_books, feedback="implicit")
    fits[number] = vi.fit(vi.cavi(model), kept, num_steps=80, key=jax.random.key(0))
    books = fits[number].posterior["items"].mean()
    found[f"{number} components"] = vi.evaluate.ranking(fits[number].predict(kept), books, kept, hidden)
for name, score in found.items():
    print(f"{name:14} NDCG {score.mean:.3f} ± {score.standard_error:.3f}, recall {score.recall:.3f}")

# %% [markdown]
# Six do as well as twelve, and better than three; there are six genres. No fit was told of genres; here are those of each component's first ten books.

# %%
fit = fits[6]
books = np.asarray(fit.posterior["items"].mean())
for k in range(6):
    best = np.argsort(-books[:, k])[:10]
    share = np.bincount(genre[best], minlength=6)
    print(f"component {k}: {share.max()} of ten are {GENRES[share.argmax()]:8}", *names[best[:3]], sep=", ")

# %% [markdown]
# ## Recommendations
#
# What two readers have borrowed, and ten books that they have not: ids and expected counts.

# %%
two = [3, 8]
answers = vi.models.recommend(fit, kept[two], 10)
for row, reader in enumerate(two):
    had = names[kept[[reader]].indices]
    print(f"reader {reader}, {age[reader]:.0f} years, has had {len(had)}:", ", ".join(had[:6]), "...")
    print("   next:", ", ".join(names[answers.items[row]]))
    later = set(hidden[[reader]].indices)
    print(
        f"   of these the reader did borrow {len(later & set(answers.items[row].tolist()))} of {len(later)} hidden books"
    )

# %% [markdown]
# Whom does the model serve? Readers by how many of their books it has seen.

# %%
model_score, plain_score = found["6 components"], found["popularity"]
seen = np.diff(kept.indptr)[model_score.users]
edges = np.quantile(seen, [0, 0.25, 0.5, 0.75, 1.0])
group = np.digitize(seen, edges[1:-1])
means = [[s.ndcg[group == g].mean() for g in range(4)] for s in (model_score, plain_score)]
figure, axes = plt.subplots(1, 2, figsize=(10, 3), constrained_layout=True)
axes[0].bar(np.arange(4) - 0.2, means[0], 0.4, label="six components")
axes[0].bar(np.arange(4) + 0.2, means[1], 0.4, label="popularity")
axes[0].set(
    xticks=range(4), xticklabels=[f"{np.min(seen[group == g])} to {np.max(seen[group == g])}" for g in range(4)]
)
axes[0].set(xlabel="books that were seen of a reader", ylabel="NDCG at 20")
axes[0].legend()
order = np.argsort(genre, kind="stable")
axes[1].imshow(books[order].T / books.max(0)[:, None], aspect="auto", cmap="Greys", vmax=0.5, interpolation="nearest")
ends = np.cumsum(np.bincount(genre, minlength=6))
axes[1].set(yticks=range(6), ylabel="component", xlabel="books, by genre", xticks=ends - np.diff(np.r_[0, ends]) / 2)
axes[1].set_xticklabels(GENRES, fontsize=8)
plt.show()

# %% [markdown]
# ## New readers
#
# A reader of whom something is known needs no new fit: the weights are found from the row. Of one who borrowed nothing we may know
# the age. With `num_covariates` the law of a reader's weights depends on it: here on age and its square, about 0.

# %%
number = (age - 50) / 20
numbers = np.stack([number, number**2 - 1], 1)
known = lambda counts, rows: vi.models.with_covariates(counts, numbers[rows])
model = vi.models.hpf(6, num_books, feedback="implicit", num_covariates=2)
learn = vi.learn("user_weights", optimizer=optax.adam(0.05))
with_age = vi.fit(vi.cavi(model, learn=learn), known(kept, old), num_steps=150, key=jax.random.key(0))
taste = np.asarray(with_age.posterior["items"].mean())

nothing = sp.csr_array((len(new), num_books), dtype=int)
rank = lambda weights, items: vi.evaluate.ranking(weights, items, nothing, borrowed[new])
scores = {
    "popularity": rank(np.ones((len(new), 1)), popular),
    "the model without ages": rank(fit.predict(nothing), books),
    "the model with ages": rank(with_age.predict(known(nothing, new)), taste),
    "their true tastes": rank(np.asarray(chance[readers][new]), np.eye(num_books)),
}
for name, score in scores.items():
    print(f"{name:24} NDCG {score.mean:.3f} ± {score.standard_error:.3f}")

# %% [markdown]
# What it would show to somebody of 18, and of 75, who has just come in:

# %%
years = np.array([18, 75])
number = (years - 50) / 20
two_readers = vi.models.with_covariates(nothing[:2], np.stack([number, number**2 - 1], 1))
answers = vi.models.recommend(with_age, two_readers, 10)
for year, items in zip(years, answers.items, strict=True):
    print(year, *names[items], sep=", ")

# %% [markdown]
# ## Verdict
#
# For readers who have borrowed something the model ranks far better than popularity, the more so the more it has seen of them. For
# those who have borrowed nothing it is popularity in other words, unless something else is known: their age closes a small part
# of the gap to what their true tastes would tell. The estimator of scikit-learn's form does the same in a pipeline:

# %%
from vijax.sklearn import PoissonFactorization

small = PoissonFactorization(6, max_iter=50, random_state=0).fit(kept)
print(names[small.recommend(kept[two[:1]], 5)[0]], f"NDCG {small.score(kept, hidden=hidden):.3f}")

# %% [markdown]
# The same from the command line: `vijax fit hpf --data ratings.csv`. Next: [lda](lda.ipynb), the same counts as documents and words.
