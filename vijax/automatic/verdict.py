"""Whether to trust a fit, in plain words: how far what is judged of it may be off, and how that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vijax.automatic.components import Mixture
from vijax.automatic.gaussian import Ended, Gaussian
from vijax.automatic.moments import Moments

RIVAL = 5.0
"""Nats below the best within which another mode holds a share of the posterior."""


class Others(NamedTuple):
    """What searches from several starts found.

    Attributes:
      num_starts: how many searches there were; 0 where there were none.
      inside: modes that q describes.
      others: modes of similar weight that it does not.
      share: of the posterior that those hold, by their bounds.
      mean: by how many standard deviations of all of them together means of q are off,
      sds: and how many times as large their standard deviations are.
      labels: names of variables whose entries may be exchanged, one list for each exchange.
    """

    num_starts: int = 0
    inside: int = 1
    others: int = 0
    share: float = 0.0
    mean: float = 0.0
    sds: float = 1.0
    labels: Sequence[Sequence[str]] = ()


def with_mixture(is_kept: bool, parts: int, more: float, error: float, words: str) -> str:
    """A verdict, with what a mixture of normals made of the bound.

    >>> with_mixture(True, 8, 0.2, 0.01, "Converged.")
    'Converged. Kept is a mixture of 8 normals: its bound is 0.20 ± 0.01 nats above that of one normal.'
    >>> with_mixture(False, 8, 0.0, 0.02, "Converged.")
    'Converged. A mixture of 8 normals was tried and not kept: its bound is not higher (by 0.00 ± 0.02 nats).'
    """
    gained = f"{more:.2f} ± {error:.2f} nats"
    if is_kept:
        return f"{words} Kept is a mixture of {parts} normals: its bound is {gained} above that of one normal."
    return f"{words} A mixture of {parts} normals was tried and not kept: its bound is not higher (by {gained})."


def verdict(
    q: Gaussian | Mixture,
    gap: float,
    khat: float,
    searched: Others = Others(),  # noqa: B008
    zero: float = 0.0,
    off: Moments | None = None,
    rounding: float = 0.0,
) -> str:
    """A few sentences: how it ended; how near q is to the posterior; means and sds, tails, and other modes.

    Args:
      q: the fit.
      gap: a lower bound on KL(q || p), nats (`vijax.automatic.report.Report`).
      khat: tail of the importance ratios.
      searched: what the starts found.
      zero: share of the draws of q where the density is zero.
      off: how far means and sds are off; None where that was not judged.
      rounding: of the log density, nats.

    >>> import numpy as np
    >>> from vijax.automatic.moments import Off
    >>> off = Moments(Off(0.01, 0.005, "x"), Off(-0.02, 0.01, "x"), 0.1, 900.0, 2048)
    >>> words = verdict(Gaussian(np.zeros(1), np.eye(1), -3.0, Ended.CONVERGED), 0.01, 0.2, Others(16), off=off)
    >>> print(words.replace(". ", ".\\n"))
    Converged.
    q is close to the posterior (at least 0.01 nats from it, k-hat 0.20): means and sds can be used.
    By importance weights of 2,048 draws means are off by up to 0.02 sd, and sds are up to 4 % too small.
    Tails are no heavier than those of q, as far as its draws reach.
    Other modes: none was found by searches from 16 starts.
    """
    said = [ENDS[q.ended].format(error=q.error)]
    if q.ended is Ended.UNBOUNDED:
        return said[0]
    if zero > 0:
        said = [_of_zeros(zero), *said]
        if zero > RARE:
            return said[0]
    if rounding > ROUNDED:
        return " ".join([*said, ROUGH.format(rounding=rounding), *_of_modes(searched)])
    said += [_of_shape(gap, khat, q, off, searched.others > 0), *_of_moments(off), *_of_tails(gap, khat, off)]
    if not q.is_full and gap < FAR:
        but = f", but along {q.num_directions} directions," if q.num_directions else ""
        said.append(f"Variables are independent under q{but}: its sds are too small where they are correlated.")
    return " ".join([*said, *_of_modes(searched)])


def is_usable(q: Gaussian | Mixture, zero: float) -> bool:
    """Whether a verdict does not begin with "Do not use this fit"."""
    return q.ended is not Ended.UNBOUNDED and zero <= RARE


ENDS = {
    Ended.CONVERGED: "Converged.",
    Ended.LIMITED: (
        "Stopped where the noise of its draws is all that is left: it moves the means by up to {error:.2f} sd. For "
        "less, raise max_gradients or max_draws."
    ),
    Ended.SPENT: "Not converged: it stopped at its limit of gradients. Raise max_gradients.",
    Ended.PASSES: "Not quite converged: the last pass over the data still changed q a little.",
    Ended.UNSOLVED: (
        "Not converged: Newton's steps on the fixed draws found no maximum. Variances may be without bound, or "
        "rounding is in the way: rescale the variables."
    ),
    Ended.TOO_FEW: (
        "Its fixed draws were too few: the bound on them is far above that on fresh ones, and its sds may be off by "
        "half. Raise num_draws, above the number of variables if need be."
    ),
    Ended.INTERRUPTED: "Stopped early, by Ctrl-C: this is the best q found so far.",
    Ended.UNBOUNDED: (
        "Do not use this fit: the bound grows without limit as q gets wider. The density is improper. Give every "
        "variable a proper prior."
    ),
}


RARE = 0.01
"""Share of zeros up to which the rest of q may serve all the same."""
ROUNDED = 0.3
"""Nats of rounding from which on the ratios of densities say nothing."""
ROUGH = (
    "The log density is so large that it is rounded to {rounding:.1g} nats, so how far means and sds are off was not "
    "judged. Subtract a constant from it, or compute in float64: jax.config.update('jax_enable_x64', True)."
)


def _of_zeros(share: float) -> str:
    """That the density is zero where q is not."""
    use = "Do not use this fit: the" if share > RARE else "The"
    remedy = "Declare the supports of the variables, vijax.free(support=...), so that no draw is outside."
    return (
        f"{use} density is zero, or no number, at {share:.1%} of the draws of q: the bound is minus infinity. {remedy}"
    )


CLOSE, FAR = 0.05, 0.3
"""Nats between q and the posterior: a mean that is off by d standard deviations costs d^2 / 2 of them."""
GOOD, FAIR = 0.1, 0.3
"""Standard deviations, and logarithms of them, up to which means and sds can be used; and up to which q is near."""


def _of_shape(gap: float, khat: float, q: Gaussian | Mixture, off: Moments | None, is_one_of_many: bool) -> str:
    """How far q is from the posterior, and what may be used of it."""
    judged = f"(at least {max(gap, 0.0):.2f} nats from it, k-hat {khat:.2f})"
    where = "its part of the posterior" if is_one_of_many else "the posterior"
    if _worst(off) <= GOOD and gap < FAR:
        use = "means and sds can be used" + (" for that part alone" if is_one_of_many else "")
        return f"q is close to {where} {judged}: {use}."
    if _seen(off) <= FAIR and gap < FAR:
        return f"q is near {where} {judged}: {_of_use(off)}."
    sampler = "Write the density in other coordinates, or use a sampler."
    if q.num_directions:
        form = f"A normal with {q.num_directions} directions of dependence"
        return f"{form} does not describe {where} {judged}: sds, and perhaps means, are wrong. {sampler}"
    if not q.is_full:
        remedy = "Means are often right; vijax.linear_response corrects the sds; a sampler would tell."
        return f"Independent normals do not describe {where} {judged}: sds are too small. {remedy}"
    return f"{where.capitalize()} has not the shape of q {judged}: sds, and perhaps means, are wrong. {sampler}"


def _worst(off: Moments | None) -> float:
    """The most that a mean or the logarithm of an sd may be off, as far as that is known."""
    if off is not None and off.is_reliable:
        return max(off.mean.most, off.log_sd.most)
    return np.inf


def _seen(off: Moments | None) -> float:
    """What is seen of it."""
    return 0.0 if off is None else max(abs(off.mean.value), abs(off.log_sd.value))


def _of_use(off: Moments | None) -> str:
    """Which of means and sds can be used."""
    if off is None or not off.is_reliable:
        return "means and sds may be off by some tenths"
    good = [name for name, part in (("means", off.mean), ("sds", off.log_sd)) if part.most <= GOOD]
    bad = "sds" if good == ["means"] else "means" if good else "means and sds"
    use = f"{good[0]} can be used, but " if good else ""
    return f"{use}{bad} may be off by more than a tenth"


def _of_moments(off: Moments | None) -> list[str]:
    """How far means and sds are off, and how that was found."""
    if off is None:
        return ["How far means and sds are off was not judged."]
    at = lambda part: f" ({part.at})" if part.most > GOOD else ""
    size = off.log_sd
    if off.is_reliable:
        means = f"means are off by up to {max(off.mean.most, 0.01):.2f} sd{at(off.mean)}"
        sds = f"sds are up to {_too(np.copysign(size.most, size.value))}{at(size)}"
        return [f"By importance weights of {off.num_draws:,} draws {means}, and {sds}."]
    doubt = f"k-hat {off.khat:.2f}, {off.ess:.0f} effective draws"
    means = f"means are off by {abs(off.mean.value):.2f} sd ({off.mean.at})"
    sds = f"sds are {_too(size.value)} ({size.at})"
    return [f"Importance weights are too uneven to judge by ({doubt}); by what they show {means}, and {sds}, or more."]


def _too(log_ratio: float) -> str:
    """Of the logarithm of sds of q by those of the posterior.

    >>> _too(-0.2), _too(0.2), _too(0.001)
    ('18 % too small', '22 % too large', '1 % too large')
    """
    percent = max(abs(100 * np.expm1(log_ratio)), 1.0)
    return f"{percent:.0f} % too {'small' if log_ratio < 0 else 'large'}"


LIGHT = 0.7
"""k-hat above which importance ratios say that tails are missed (Vehtari et al. 2024)."""


def _of_tails(gap: float, khat: float, off: Moments | None) -> list[str]:
    """Whether tail probabilities can be relied on: ratios have no tail, and no sd is too small for there is more."""
    if gap >= FAR:
        return []
    if khat > LIGHT or (off is not None and off.log_sd.value < -GOOD):
        return ["The tails of the posterior are heavier than those of q: do not rely on tail probabilities."]
    return ["Tails are no heavier than those of q, as far as its draws reach."]


def _of_modes(searched: Others) -> list[str]:
    """Other modes, and labels that may be exchanged."""
    return [*_of_labels(searched), *_of_rivals(searched)]


def _of_labels(searched: Others) -> list[str]:
    said = []
    for names in searched.labels:
        them = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        said.append(
            f"Labels can be exchanged: the density is the same with the entries of {them} in another order. q "
            "describes one labelling, and so do its means and sds."
        )
    return said


def _of_rivals(searched: Others) -> list[str]:
    if not searched.num_starts:
        return ["Other modes were not looked for."]
    starts = f"searches from {searched.num_starts} starts"
    if not searched.others:
        if searched.inside > 1:
            return [f"Other modes: q describes all {searched.inside} that {starts} found."]
        return [f"Other modes: none was found by {starts}."]
    is_one = searched.others == 1
    found = "another mode" if is_one else f"{searched.others} other modes"
    holds = f"about {100 * searched.share:.0f} % of the posterior"
    moved = f"means move by up to {searched.mean:.1f} sd, and sds are up to {searched.sds:.1f} times as large"
    return [
        f"The starts found {found} of similar weight, {holds} by the bounds, which q does not describe: with "
        f"{'it' if is_one else 'them'} {moved}. See fit.modes."
    ]
