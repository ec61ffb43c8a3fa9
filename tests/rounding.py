"""What rounding leaves where an exact zero is expected: the `atol` of comparisons that may meet
one."""

from typing import Any

import numpy as np


def rounding(want: Any) -> float:
    """64 units in the last place of the largest entry: an entry is a sum of terms of about that
    size, which may cancel, and whether they cancel to the last bit depends on the processor.

    >>> print(rounding(np.array([0.0, 2.0])))
    2.842170943040401e-14
    """
    want = np.asarray(want)
    return 64 * float(np.finfo(want.dtype).eps) * float(np.max(np.abs(want), initial=0.0))
