"""How grad_mu E_q[l] is estimated: one rule a module."""

from vijax.message.base import Message, MessageRule
from vijax.message.mean_field import mean_field
from vijax.message.mixed import mixed
from vijax.message.monte_carlo import monte_carlo
from vijax.message.point import maximum_a_posteriori, maximum_likelihood
from vijax.message.ssvi import ssvi, ssvi_a

__all__ = [
    "Message",
    "MessageRule",
    "maximum_a_posteriori",
    "maximum_likelihood",
    "mean_field",
    "mixed",
    "monte_carlo",
    "ssvi",
    "ssvi_a",
]
