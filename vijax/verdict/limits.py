"""The limits beyond which a verdict changes, in one table: each with its unit, its meaning and its
reason.

Every judge of a fit reads them here: the verdict of `vijax.auto` (`words`), that of fits by steps
(`words_of_steps`), reports and draws, `vijax.trust.check` and `vijax.linear_response`. A docstring
begins with the unit.

"Sds" are standard deviations of the posterior or of q, and logarithms of them count in the same
unit: a log sd that is off by .1 is an sd that is off by a tenth. A mean that is off by d sds costs
d^2 / 2 nats, and so does, for small d, an sd whose logarithm is off by d / sqrt(2)."""

# --- how far q is from the posterior --------------------------------------------------------------
CLOSE = 0.05
"""Nats. q is close below it: all of it in one variable is a mean that is off by .3 sd."""
FAR = 0.3
"""Nats. From here on q has not the shape of the posterior: all of it in one variable is a mean that
is off by .8 sd."""
FAR_IN_ALL = 1.0
"""Nats. The same where importance weights are even enough to judge each mean and sd: small errors
of many variables add up, and none of them need be large."""
FAR_TOGETHER = 0.005
"""Nats a variable. The same of many variables, where that is more: the cost of means that are all
off by `GOOD`."""
FAR_A_VARIABLE = 2.0
"""Nats a variable. A fit by steps is of no use beyond it: the cost of a mean that is off by two
sds, or of an sd that is a tenth of the right one, or two and a half times as large."""

MANY = 50
"""Numbers. So many means or sds are judged together: the largest of them is large by noise alone,
two and a half standard errors of 50."""

# --- how far means and sds are off ----------------------------------------------------------------
GOOD = 0.1
"""Sds. Means and sds that are off by less can be used: an interval of 95 % then holds 92 to 97
%."""
FAIR = 0.3
"""Sds. What is off by less is near: an interval of 95 % then holds 85 to 99 %."""
WRONG = 0.3
"""Sds. `vijax.trust.check` calls a mean or an sd wrong that is off by more, beyond noise: it is not
even fair."""
ARRIVED = 0.5
"""Sds. Where a fit by steps has arrived, its means begin to move by less: it costs .13 nats,
between close and far."""
AWAY = 1.0
"""Sds. A fit by steps whose means begin to move by more is of no use: it costs half a nat, beyond
what is far."""
STRETCHED = 0.15
"""Sds. Where a fit by steps has arrived, logarithms of its sds begin to move by less: between good
and fair."""
OFF_IN_FLOAT32 = 0.05
"""Sds. Where float32 moves means or sds by more, `vijax.auto` computes in float64: half of what is
still good."""
OFF_OPTIMUM = 1.0
"""Sds. Linear response is not given for a q whose means are further from the maximum on fixed
draws: it is a derivative there, and says nothing of another place."""

# --- the course of the steps ----------------------------------------------------------------------
MOVED = 0.1
"""Nats. A change of the bound from the third quarter of the steps to the last is told if it is
larger: twice what is close."""
CLIMBING = 2.0
"""Nats. A fit far from the posterior whose bound still changes by more is of no use: many times
what is far. Of up to four variables; in proportion for more, since each may gain a little."""
SETTLED = 0.05
"""Nats. A bound that gains less from the third quarter of the steps to the last has settled: what
is close."""
FLAT = 1e-5
"""A share of the bound. One that gains less over the last tenth of its steps has converged: some
eighty roundings of float32."""
SAME_END = 1e-4
"""A share of the bound. Starts that end within it have one end: ten times as much as the last steps
may still gain."""
FIXED = 1e-3
"""Nats. A fit that one more step moves by less is a fixed point, of which linear response can be
asked: a mean then moves by less than .05 sd."""

# --- noise ----------------------------------------------------------------------------------------
WITHIN = 2.0
"""Standard errors. They are added to an error where it is said how far something may be off: 95 %
of the time."""
SURE = 3.0
"""Standard errors. What is beyond is no noise, where few numbers are looked at: once in 370 times
by chance."""
SURE_OF_MEANS = 5.0
"""Standard errors. The same of the largest of many: of a million means less than one is beyond it
by chance."""
SURE_BOUND = 0.01
"""Nats. A bound with a larger standard error gets more draws: a mixture may gain as little as
that."""
BY_CHANCE = 0.003
"""A probability. That some statistic of data from the model is called unlike the data: as
`SURE`."""
ROUNDING_TOLD = 0.1
"""Nats. A log density that is rounded to more gets a sentence on it: twice what is close."""
ROUNDING_HIDES = 0.3
"""Nats. Log densities that are rounded to more do not say how far q is: rounding alone may then
look far."""
ROUNDING_HIDES_STEPS = 0.5
"""Nats. The same of fits by steps, whose rounding is estimated from above: by the largest of their
terms."""
ROUNDINGS = 8.0
"""Roundings of a log density. Differences that are smaller are none: those of several terms add
up."""

# --- importance weights ---------------------------------------------------------------------------
KHAT_GOOD = 0.5
"""k-hat. Below it weights have a variance, so that means by them converge fast (Vehtari et al.
2024, section 3.2)."""
KHAT_RELIABLE = 0.7
"""k-hat. Up to it weights are reliable at practical numbers of draws (Vehtari et al. 2024, section
3.2)."""
KHAT_USELESS = 1.0
"""k-hat. Above it weights have no mean, and none is had by more draws (Vehtari et al. 2024, section
3.2)."""
ENOUGH_DRAWS = 50.0
"""Effective draws. Fewer judge no means and sds: a mean of 50 has a standard error of .14 sd, which
is hardly good."""
ALIKE_WEIGHTS = 1e-3
"""A squared coefficient of variation. Below it weights are all alike and have no tail: half a
thousandth of a nat."""
ALIKE_RATIOS = 0.05
"""Nats. Fits by steps whose ratios all lie within it are the posterior but for rounding, and have
no tail: what is close."""
EQUAL_RATIOS = 1e-3
"""Nats. The same of `vijax.trust.check`, which allows for rounding by `ROUNDINGS` and needs no
more."""
RARE = 0.01
"""A share of draws. q is of no use where the density is zero at more of them: it reaches beyond the
support, and its bound is minus infinity."""

# --- other modes, other starts, other families ----------------------------------------------------
RIVAL = 5.0
"""Nats. A mode or a width counts whose bound is no further below the best: one further below holds
less than .7 %."""
ROUGHLY = 1.0
"""Nats. The rough bound at the mode of q is held against those at other modes if it is so near that
of q: rough bounds have an error in common."""
BEYOND = 3.0
"""Nats. Parts of another width are told where the posterior is so far above q: twenty times as
dense."""
WORTH = 0.01
"""Nats. A mixture that gains less than that, or than its noise, is not kept: a fifth of what is
close."""
HIGHER = 1.0
"""Nats. Another start is a fault of the fit if it ends so much higher: its optimum has 2.7 times
the evidence."""
TOO_FEW_DRAWS = 2.0
"""Nats. There were too few fixed draws where the bound on them is so far above that on fresh ones:
sds may be off by half."""
MOVING = 0.3
"""An acceptance. Short chains that accept less often tell nothing: they hardly leave their
start."""

# --- improper densities ---------------------------------------------------------------------------
WIDE = 10.0
"""Units of free coordinates. q is looked at where an sd or a mean is larger: fits begin at less
than 2."""
WIDE_ALONG = 100.0
"""Units of free coordinates. The same of the sd along a direction that is no coordinate. It is
larger, for directions are those of a Hessian, and its rounding makes flat ones."""
RESOLVED = 1e6
"""Units of free coordinates. The largest distance along such a direction: further out float32 does
not resolve sums."""
OVERFLOWING = 1e15
"""Units of free coordinates. A q further out is judged by its way there: squares of ten times as
much are too large for float32."""
ONE_COORDINATE = 0.999
"""The largest entry of a unit vector. Directions with more count as their coordinate: these are
looked at anyway."""
NAMED_ALONG = 0.3
"""A share of the largest entry. Variables whose entry of a direction is larger are named: smaller
ones are noise."""
MAY_BE_IMPROPER = 1e9
"""Units of free coordinates. A search without an end that is wider, along an independent normal, is
looked at."""
WIDENED = 1e6
"""Times as wide as at the start. q of many variables is looked at beyond it, where the density is
flat."""
WIDEST = 40.0
"""A log sd. A density on which q gets wider is improper: float32 holds no draws beyond."""
ROUNDED_HIGH = 100.0
"""Nats. A bound above zero that is rounded to more has climbed without an end, and is looked at."""
