"""The limits beyond which a verdict changes, in one table: each with its unit, its meaning and its
reason.

Every judge of a fit reads them here: the verdicts of `vijax.auto` (`words`) and of fits by steps
(`words_of_steps`), reports and draws, `vijax.trust.check` and `vijax.linear_response`. A docstring
begins with the unit.

"Sds" are standard deviations of the posterior or of q. Errors of log sds have the same unit: a log
sd that is off by .1 is an sd that is off by a tenth. A mean that is off by d sds costs d^2 / 2
nats; for small d, an sd whose logarithm is off by d / sqrt(2) costs as much."""

# --- how far q is from the posterior --------------------------------------------------------------
CLOSE = 0.05
"""Nats. A q with a smaller gap is close to the posterior. In one variable, the gap would be a mean
that is off by .3 sd."""
FAR = 0.3
"""Nats. A q with a larger gap does not have the shape of the posterior. In one variable, the gap
would be a mean that is off by .8 sd."""
FAR_IN_ALL = 1.0
"""Nats. The limit `FAR` where importance weights are even enough to judge each mean and sd: small
errors of many variables add up, and none of them need be large."""
FAR_TOGETHER = 0.005
"""Nats a variable. The limit `FAR` for many variables, if it is larger so: the cost if all means
are off by `GOOD`."""
FAR_A_VARIABLE = 2.0
"""Nats a variable. A fit by steps with a larger gap is of no use: it is the cost of a mean that is
off by two sds, or of an sd that is a tenth of the right one, or two and a half times as large."""

MANY = 50
"""Numbers. From here on means or sds are judged together: the largest of 50 is large by noise
alone, two and a half standard errors."""

# --- how far means and sds are off ----------------------------------------------------------------
GOOD = 0.1
"""Sds. Means and sds with smaller errors can be used: an interval of 95 % then holds 92 to 97
%."""
FAIR = 0.3
"""Sds. Means and sds with smaller errors are near: an interval of 95 % then holds 85 to 99 %."""
WRONG = 0.3
"""Sds. `vijax.trust.check` calls a mean or an sd wrong if its error is larger, beyond noise: it is
not even fair."""
ARRIVED = 0.5
"""Sds. A fit by steps has arrived if its means begin to move by less: this costs .13 nats, between
close and far."""
AWAY = 1.0
"""Sds. A fit by steps is of no use if its means begin to move by more: this costs half a nat,
beyond what is far."""
STRETCHED = 0.15
"""Sds. A fit by steps has arrived if logarithms of its sds begin to move by less: between good and
fair."""
OFF_IN_FLOAT32 = 0.05
"""Sds. If float32 moves means or sds by more, `vijax.auto` computes in float64: half of what is
still good."""
OFF_OPTIMUM = 1.0
"""Sds. Linear response is not computed if means of q are further from the maximum on fixed draws:
it is a derivative at the maximum, and says nothing of another place."""

# --- the course of the steps ----------------------------------------------------------------------
MOVED = 0.1
"""Nats. The verdict mentions a larger change of the bound from the third quarter of the steps to
the last: twice what is close."""
CLIMBING = 2.0
"""Nats. A fit far from the posterior is of no use if its bound still changes by more: many times
what is far. The limit is for up to four variables; it grows in proportion for more, since each may
gain a little."""
SETTLED = 0.05
"""Nats. A bound has settled if it gains less from the third quarter of the steps to the last: this
is close."""
FLAT = 1e-5
"""A share of the bound. A bound has converged if it gains less over the last tenth of its steps:
some eighty roundings of float32."""
SAME_END = 1e-4
"""A share of the bound. Starts whose ends differ by less have the same end: ten times as much as
the last steps may still gain."""
FIXED = 1e-3
"""Nats. A fit is a fixed point, which linear response needs, if one more step moves it by less: a
mean then moves by less than .05 sd."""

# --- noise ----------------------------------------------------------------------------------------
WITHIN = 2.0
"""Standard errors. They are added to an error where a sentence gives the largest possible error:
it is true 95 % of the time."""
SURE = 3.0
"""Standard errors. If few numbers are judged, one that is further off is no noise: chance exceeds
it once in 370 times."""
SURE_OF_MEANS = 5.0
"""Standard errors. The limit `SURE` for the largest of many: of a million means less than one is
beyond it by chance."""
SURE_BOUND = 0.01
"""Nats. A bound with a larger standard error gets more draws: a mixture may gain as little as
this."""
BY_CHANCE = 0.003
"""A probability. The chance that some statistic of data from the model is called unlike the data:
that of `SURE`."""
ROUNDING_TOLD = 0.1
"""Nats. A log density with a larger rounding error gets a sentence on it: twice what is close."""
ROUNDING_HIDES = 0.3
"""Nats. A log density with a larger rounding error cannot show how far q is: rounding alone may
then look far."""
ROUNDING_HIDES_STEPS = 0.5
"""Nats. The limit `ROUNDING_HIDES` for fits by steps, whose rounding is estimated from above: by
the largest of their terms."""
ROUNDINGS = 8.0
"""Roundings of a log density. Smaller differences are no differences: roundings of several terms
add up."""

# --- importance weights ---------------------------------------------------------------------------
KHAT_GOOD = 0.5
"""k-hat. Below it weights have a variance, so that weighted means converge fast (Vehtari et al.
2024, section 3.2)."""
KHAT_RELIABLE = 0.7
"""k-hat. Up to it weights are reliable at practical numbers of draws (Vehtari et al. 2024, section
3.2)."""
KHAT_USELESS = 1.0
"""k-hat. Above it weights have no mean, and more draws do not help (Vehtari et al. 2024, section
3.2)."""
ENOUGH_DRAWS = 50.0
"""Effective draws. Fewer cannot judge means and sds: a mean of 50 draws has a standard error of
.14 sd, which is hardly good."""
ALIKE_WEIGHTS = 1e-3
"""A squared coefficient of variation. Below it all weights are alike and have no tail: half a
thousandth of a nat."""
ALIKE_RATIOS = 0.05
"""Nats. If all ratios of a fit by steps differ by less, it is the posterior up to rounding, and
the ratios have no tail: this is close."""
EQUAL_RATIOS = 1e-3
"""Nats. The limit `ALIKE_RATIOS` of `vijax.trust.check`, which allows for rounding by `ROUNDINGS`
and so can be smaller."""
RARE = 0.01
"""A share of draws. q is of no use if the density is zero at more draws: it reaches beyond the
support, and its bound is minus infinity."""

# --- other modes, other starts, other families ----------------------------------------------------
RIVAL = 5.0
"""Nats. A mode or a width counts if its bound is no further below the best bound: further below it
holds less than .7 %."""
ROUGHLY = 1.0
"""Nats. If the rough bound at the mode of q is this near the bound of q, it is compared with the
rough bounds at other modes: these have an error in common."""
BEYOND = 3.0
"""Nats. Parts of another width are reported if the log density of the posterior there exceeds that
of q by more: twenty times as dense."""
WORTH = 0.01
"""Nats. A mixture is dropped if it gains less than this, or than its noise: a fifth of what is
close."""
HIGHER = 1.0
"""Nats. Another start that ends higher by more is a fault of the fit: its optimum has 2.7 times
the evidence."""
TOO_FEW_DRAWS = 2.0
"""Nats. There were too few fixed draws if the bound on them exceeds the bound on fresh draws by
more: sds may be off by half."""
MOVING = 0.3
"""An acceptance. Short chains with a lower acceptance tell nothing: they hardly leave their
start."""

# --- improper densities ---------------------------------------------------------------------------
WIDE = 10.0
"""Units of free coordinates. q is checked for an improper density if an sd or a mean is larger:
fits begin at less than 2."""
WIDE_ALONG = 100.0
"""Units of free coordinates. The limit `WIDE` for the sd along a direction that is no coordinate.
It is larger, because these directions come from a Hessian, whose rounding makes flat ones."""
RESOLVED = 1e6
"""Units of free coordinates. The largest distance along such a direction: further out float32 does
not resolve sums."""
OVERFLOWING = 1e15
"""Units of free coordinates. A q further out is judged by the bound on the way there: squares of
ten times as much are too large for float32."""
ONE_COORDINATE = 0.999
"""The largest entry of a unit vector. Directions with a larger entry count as a coordinate:
coordinates are checked anyway."""
NAMED_ALONG = 0.3
"""A share of the largest entry. A message names the variables whose entry of a direction is
larger: smaller entries are noise."""
MAY_BE_IMPROPER = 1e9
"""Units of free coordinates. A search without an optimum is checked for an improper density if an
independent normal is wider."""
WIDENED = 1e6
"""Times as wide as at the start. A wider q of many variables is checked for an improper density if
the density is flat."""
WIDEST = 40.0
"""A log sd. A density on which q gets wider is improper: float32 has no draws beyond it."""
ROUNDED_HIGH = 100.0
"""Nats. A bound above zero with a larger rounding error has climbed without an optimum, and is
checked for an improper density."""
