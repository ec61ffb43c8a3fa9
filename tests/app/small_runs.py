"""The inputs of a small run of a mixture, which tests damage, stop and go on with."""

import json

import numpy as np

CONFIG = """
[model]
name = "mixture"
num_components = 2
emission.name = "diagonal_gaussian"

[data]
path = {path}
held_out = 0.0

[fit]
num_epochs = 4
checkpoint_every_s = 0
"""


def write_inputs(folder):
    """Two clusters of rows, and the configuration of a run on them."""
    x = np.random.default_rng(0).normal(size=(40, 2)) + 4.0 * (np.arange(40) % 2)[:, None]
    np.savetxt(folder / "rows.csv", x, delimiter=",", header="a,b", comments="", fmt="%.6g")
    (folder / "small.toml").write_text(CONFIG.format(path=json.dumps(str(folder / "rows.csv"))))
    return folder
