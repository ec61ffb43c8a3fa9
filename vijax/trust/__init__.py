"""stub"""
from typing import NamedTuple
class S(NamedTuple):
    khat: float
def psis(r):
    return S(0.0)
