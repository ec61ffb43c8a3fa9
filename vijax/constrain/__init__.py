"""Constraints of points, and free coordinates in which points are learnt: any real numbers are coordinates of a point.

Each is a frozen dataclass, equal by value: `point` is the map and `free` its inverse, `log_det` its log determinant,
`holds` the support, `free_shape` the shape of the coordinates.
"""

from vijax.constrain.base import Constraint as Constraint
from vijax.constrain.correlations import correlation_cholesky as correlation_cholesky
from vijax.constrain.half_lines import above as above
from vijax.constrain.half_lines import below as below
from vijax.constrain.half_lines import positive as positive
from vijax.constrain.intervals import interval as interval
from vijax.constrain.intervals import unit_interval as unit_interval
from vijax.constrain.matrices import positive_definite as positive_definite
from vijax.constrain.real_line import real as real
from vijax.constrain.simplices import simplex as simplex
from vijax.constrain.vectors import ordered as ordered
