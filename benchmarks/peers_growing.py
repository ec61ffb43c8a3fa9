"""bnpy 0.1.7 on the binary data of benchmarks/growing.py, in an environment of its own.

    python benchmarks/growing.py --export growing.npz
    python -m venv bnpy && bnpy/bin/pip install wheel "setuptools<70" cython six numpy==1.23.5 scipy==1.10.1 \\
        pandas==1.5.3 scikit-learn==1.2.2 matplotlib==3.7.1 joblib munkres ply psutil memory_profiler numexpr
    bnpy/bin/pip install --no-deps --no-build-isolation bnpy
    bnpy/bin/python benchmarks/peers_growing.py growing.npz

The versions that bnpy asks for do not build on Python 3.11, hence `--no-deps`; `inspect.getargspec`, which Python 3.11
has no more, is put back. Same prior as there: Beta(1, 1) of each pixel, concentration 1. All data are one batch.
"""

import inspect
import sys
import tempfile
import time

import numpy as np

inspect.getargspec = lambda f: tuple(inspect.getfullargspec(f)[:4])  # type: ignore[attr-defined]
import bnpy  # type: ignore[import-not-found]  # noqa: E402

data = np.load(sys.argv[1])
for name in ("10 bars", "digits"):
    train, test = (np.ascontiguousarray(data[f"{name}|{part}"].astype(float)) for part in ("train", "test"))
    for start in (1, 50):
        began = time.process_time()
        model, info = bnpy.run(
            bnpy.data.XData(train),
            "DPMixtureModel",
            "Bern",
            "memoVB",
            output_path=tempfile.mkdtemp(),
            nLap=100,
            nTask=1,
            nBatch=1,
            K=start,
            initname="randexamples",
            gamma0=1.0,
            lam1=1.0,
            lam0=1.0,
            moves="birth,merge,delete,shuffle",
            b_startLap=2,
            b_Kfresh=4,
            m_startLap=5,
        )
        spent = time.process_time() - began
        used = int(np.sum(model.calc_local_params(bnpy.data.XData(train))["resp"].sum(0) >= 0.5))
        post = model.obsModel.Post
        probs = post.lam1 / (post.lam1 + post.lam0)
        each = test @ np.log(probs).T + (1 - test) @ np.log1p(-probs).T
        score = np.logaddexp.reduce(each + np.log(model.allocModel.get_active_comp_probs()), axis=1).mean()
        bound = -info["loss"] * train.size
        print(
            f"| {name} | bnpy from K = {start} | {used} | {bound:,.1f} | | {score:.3f} | | {spent:.0f} |",
            file=sys.stderr,
        )
