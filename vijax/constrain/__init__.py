"""Constraints of points, and the free coordinates in which points are learnt: any real numbers are
coordinates of a point.

A constraint is a frozen dataclass, compared by value. `point` maps coordinates to a point, `free`
is its inverse and `log_det` its log determinant; `holds` tells the support, and `free_shape` the
shape of the coordinates."""

from vijax.constrain.base import Constraint as Constraint
from vijax.constrain.matrices import correlation_cholesky as correlation_cholesky
from vijax.constrain.matrices import positive_definite as positive_definite
from vijax.constrain.scalars import above as above
from vijax.constrain.scalars import below as below
from vijax.constrain.scalars import interval as interval
from vijax.constrain.scalars import positive as positive
from vijax.constrain.scalars import real as real
from vijax.constrain.scalars import unit_interval as unit_interval
from vijax.constrain.vectors import ordered as ordered
from vijax.constrain.vectors import simplex as simplex
