"""Data of other libraries given as they are: taken, or refused with the call that takes them."""

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.loader import as_loader
from vijax.data.streams.foreign import to_arrays

MEAN = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(0.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["mean"].value - 0.5 * s["mean"].square, None),
)
FIRST = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(0.0, 1.0)}),
    local_elbo=lambda s, data, key: (data[0] * s["mean"].value - 0.5 * s["mean"].square, None),
)
X = np.random.default_rng(0).normal(1.0, 1.0, 40)
POSTERIOR = X.sum() / 41
"""The mean of the posterior, by hand."""


class Tensor:
    """As a tensor of PyTorch."""

    __module__ = "torch"

    def __init__(self, x, why=None):
        self.x, self.why = x, why

    def __array__(self, dtype=None, copy=None):
        if self.why:
            raise self.why
        return self.x


class Dataset:
    """As a data set of PyTorch."""

    __module__ = "torch.utils.data.dataset"

    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        return (Tensor(X[row]),)


class TensorDataset(Dataset):
    """As a data set of tensors of PyTorch."""

    tensors = (Tensor(X),)


class DataLoader:
    """As a loader of PyTorch: a batch of a data set of one tensor is a list of that."""

    __module__ = "torch.utils.data.dataloader"

    def __init__(self, parts=4):
        self.dataset, self.parts = TensorDataset(), parts

    def __iter__(self):
        return ([Tensor(part)] for part in np.split(X, self.parts))


def fitted(data, model=MEAN, **more):
    alg = vi.svi(model, step_size=vi.step_size.robbins_monro(kappa=1.0))
    return float(vi.fit(alg, data, key=jax.random.key(0), **more).posterior["mean"].mean())


def test_a_tensor_is_an_array():
    assert fitted(Tensor(X), num_steps=1) == pytest.approx(POSTERIOR, rel=1e-5)
    assert fitted((Tensor(X), Tensor(X)), FIRST, num_steps=1) == pytest.approx(POSTERIOR, rel=1e-5)


@pytest.mark.parametrize(
    "why", [RuntimeError("Can't call numpy() on Tensor that requires grad."), TypeError("cuda:0")]
)
def test_a_tensor_that_numpy_cannot_read_says_what_to_do(why):
    with pytest.raises(
        ValueError,
        match=naming("data:", "Tensor", "x.detach()"),
    ):
        fitted(Tensor(X, why), num_steps=1)


SOURCES = {
    "loader": (
        DataLoader(),
        r"the source DataLoader.*vijax.data.stream\(loader, num_groups=len\(loader.dataset\), shuf",
    ),
    "generator": (
        (part for part in np.split(X, 4)),
        r"the source generator.*vijax.data.stream\(loader, num_groups=N",
    ),
    "data set": (
        Dataset(),
        r"the data set Dataset.*stack its rows to arrays, or have a loader make batches of them",
    ),
    "tensors": (
        TensorDataset(),
        r"the data set TensorDataset.*give its tensors, dataset.tensors, as arrays",
    ),
}


@pytest.mark.parametrize("model", [MEAN, vi.models.lda(5, 2)], ids=["rows", "documents"])
@pytest.mark.parametrize("name", SOURCES)
def test_what_gives_batches_or_rows_is_refused_with_the_call_that_takes_it(name, model):
    source, message = SOURCES[name]
    with pytest.raises(vi.data.DataError, match=f"data: expected arrays, got {message}"):
        as_loader(source, model, 10, 0)


def test_the_remedies_work():
    assert fitted(TensorDataset().tensors[0], num_steps=1) == pytest.approx(POSTERIOR, rel=1e-5)
    loader = DataLoader()
    source = vi.data.stream(loader, num_groups=len(loader.dataset), shuffled=True)
    assert fitted(source, num_steps=4) == pytest.approx(POSTERIOR, rel=1e-4)


def test_a_batch_of_one_tensor_is_that_tensor_unless_the_model_reads_a_tuple():
    batches = lambda: vi.data.stream(DataLoader(), 40, shuffled=True)
    first, second = (fitted(batches(), model, num_steps=4) for model in (MEAN, FIRST))
    assert first == second == pytest.approx(POSTERIOR, rel=1e-4)


def test_dask_arrays_are_taken():
    dask = pytest.importorskip("dask.array")
    assert fitted(dask.from_array(X, chunks=7), num_steps=1) == pytest.approx(POSTERIOR, rel=1e-5)


def test_arrays_tables_and_trees_stay_as_they_are():
    tree = {"x": X, "y": [X, jax.numpy.zeros(3)], "z": None}
    same = to_arrays(tree)
    assert same["x"] is X
    assert same["y"][1] is tree["y"][1]
    for data in (X, jax.numpy.zeros(3), None, 3.0, "docstrings"):
        assert to_arrays(data) is data
    corpus = vi.data.read(["the cat sat", "the dog ran"] * 3)
    counts = corpus.to_scipy()
    assert to_arrays(corpus) is corpus
    assert to_arrays(counts) is counts
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": X})
    assert to_arrays(frame) is frame
