"""Sentences on whether to trust a fit: how it ended, how far means and sds may be off, tails, and
other modes.

The first part has the words that all verdicts share, the second the verdict of `vijax.auto` and
`vijax.dadvi`. Fits by steps are in `vijax.verdict.words_of_steps`, limits in
`vijax.verdict.limits`. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vijax.verdict import limits
from vijax.verdict.report import Ended, Moments, Others


def listed(names: Sequence[str]) -> str:
    """Joins names by commas and "and".

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def of_zeros(share: float) -> str:
    """Says that the density is zero where q is not."""
    return (
        f"the density is zero, or no number, at {share:.1%} of the draws of q, so the bound is "
        "minus infinity."
    )


def of_distance(gap: float, khat: float, bound: str = "") -> str:
    """Says how far q is from the posterior, in brackets."""
    return (
        f"(at least {max(gap, 0.0):.2f} nats from it, k-hat "
        f"{khat:.2f}{bound and ', bound '}{bound})"
    )


SUPPORTS = (
    "Declare the supports of the variables, vijax.free(support=...), so that no draw is outside."
)
HEAVY = "The tails of the posterior are heavier than those of q: do not rely on tail probabilities."
INDEPENDENT = "Variables are independent under q: its sds are too small where they are correlated."
JOINED = "Free variables are independent of conjugate ones under q."
IMPROPER = (
    "Do not use this fit: the bound grows without limit {along}. The density is improper. Give "
    "every variable a "
    "proper prior."
)
MORE = (
    "Go on with vijax.fit(fit.alg, data, key=key, state=fit.state, num_epochs=...), counted from "
    "the first."
)


def of_end(is_interrupted: bool, is_settled: bool, settled: str) -> str:
    """Says how a fit by steps ended; `settled` where the bound rose no more."""
    if is_interrupted:
        return f"Stopped early, by Ctrl-C. {MORE}"
    return settled if is_settled else f"Not converged: the bound still rose at the end. {MORE}"


def of_starts(num_starts: int, same: int) -> list[str]:
    """Says how many starts reached the best bound; 0 where all of them were one."""
    if not same:
        return ["All starts were the same: where this model starts is not random."]
    doubt = "" if same > 1 else ": there may be a better one"
    return [f"{same} of {num_starts} starts reached the best bound{doubt}."]


# --- fits by vijax.auto and vijax.dadvi -----------------------------------------------------------
ENDS = {
    Ended.CONVERGED: "Converged.",
    Ended.LIMITED: (
        "Stopped where the noise of its draws is all that is left: it moves the means by up to "
        "{error:.2f} sd. For "
        "less, raise max_gradients or max_draws."
    ),
    Ended.SPENT: "Not converged: it stopped at its limit of gradients. Raise max_gradients.",
    Ended.PASSES: "Not quite converged: the last pass over the data still changed q a little.",
    Ended.UNSOLVED: (
        "Not converged: Newton's steps on the fixed draws found no maximum. Variances may be "
        "without bound, or "
        "rounding is in the way: rescale the variables."
    ),
    Ended.TOO_FEW: (
        "Its fixed draws were too few: the bound on them is far above that on fresh ones, and its "
        "sds may be off by "
        "half. Raise num_draws, above the number of variables if need be."
    ),
    Ended.INTERRUPTED: "Stopped early, by Ctrl-C: this is the best q found so far.",
    Ended.UNBOUNDED: IMPROPER.format(along="as q gets wider"),
}
SPENT_NEAR = "It stopped at its limit of gradients: with a larger max_gradients it may come nearer."
SINGLE = "{off.num_numbers:,} of each were judged together; one off by {off.hidden:.2f} would show"
ROUGH = (
    "The log density is so large that it is rounded to {rounding:.1g} nats, so how far means and "
    "sds are off was not "
    "judged. Subtract a constant from it, or compute in float64: "
    "jax.config.update('jax_enable_x64', True)."
)


def verdict(
    q: Any,
    gap: float,
    khat: float,
    searched: Others = Others(),  # noqa: B008
    zero: float = 0.0,
    off: Moments | None = None,
    rounding: float = 0.0,
) -> str:
    """Returns a few sentences: how it ended; how near q is to the posterior; means and sds, tails,
    and other modes.

    q is a `Gaussian` or `Mixture`, `searched` is `Report.others`, and the other arguments have the
    names of `Report`.

    >>> import types
    >>> from vijax.verdict.report import Off
    >>> off = Moments(Off(0.01, 0.005, "x"), Off(-0.02, 0.01, "x"), 0.1, 900.0, 2048)
    >>> q = types.SimpleNamespace(ended=Ended.CONVERGED, error=0.0, is_full=True, num_directions=0)
    >>> words = verdict(q, 0.01, 0.2, Others(16), off=off)
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
    if zero > limits.RARE:
        return f"Do not use this fit: {of_zeros(zero)} {SUPPORTS}"
    if zero > 0:
        said = [
            f"{of_zeros(zero).capitalize()} What follows is about the others. {SUPPORTS}",
            *said,
        ]
    if rounding > limits.ROUNDING_HIDES:
        return " ".join(
            [*said, ROUGH.format(rounding=rounding), *_of_labels(searched), *_of_others(searched)]
        )
    judged = [
        _of_shape(gap, khat, q, off, searched.others > 0 or bool(searched.widths)),
        *_of_moments(off),
        *_of_tails(gap, khat, off),
    ]
    if q.ended is Ended.SPENT and _is_near(q, gap, off):
        said = [
            *said[:-1],
            *judged,
            SPENT_NEAR,
        ]  # what it is good for comes first, then that more would be better
    else:
        said += judged
    if not q.is_full and gap < limits.FAR:
        but = f", but along {q.num_directions} directions," if q.num_directions else ""
        said.append(INDEPENDENT.replace(" under q", f" under q{but}"))
    return " ".join([*said, *_of_labels(searched), *_of_others(searched)])


def is_usable(ended: Ended, zero: float) -> bool:
    """Says whether a verdict does not begin with "Do not use this fit"."""
    return ended is not Ended.UNBOUNDED and zero <= limits.RARE


def _of_shape(gap: float, khat: float, q: Any, off: Moments | None, is_one_of_many: bool) -> str:
    """Says how far q is from the posterior, and whether means and sds may be used."""
    judged = of_distance(gap, khat)
    where = "its part of the posterior" if is_one_of_many else "the posterior"
    far = _far(q, off)
    if _worst(off) <= limits.GOOD and _hidden(off) <= limits.FAIR and gap < far:
        use = "means and sds can be used" + (" for that part alone" if is_one_of_many else "")
        return f"q is close to {where} {judged}: {use}."
    if _seen(off) <= limits.FAIR and gap < far:
        return f"q is near {where} {judged}: {_of_use(off)}."
    sampler = "Write the density in other coordinates, or use a sampler."
    if q.num_directions:
        form = f"A normal with {q.num_directions} directions of dependence"
        return (
            f"{form} does not describe {where} {judged}: sds, and perhaps means, are wrong. "
            f"{sampler}"
        )
    if not q.is_full:
        remedy = (
            "Means are often right; vijax.linear_response corrects the sds; a sampler would tell."
        )
        return f"Independent normals do not describe {where} {judged}: sds are too small. {remedy}"
    return (
        f"{where.capitalize()} does not have the shape of q {judged}: sds, and perhaps means, are "
        f"wrong. {sampler}"
    )


def _is_near(q: Any, gap: float, off: Moments | None) -> bool:
    """Tells whether means and sds, or one of both, can be used."""
    is_good = _worst(off) <= limits.GOOD and _hidden(off) <= limits.FAIR
    return (is_good or _seen(off) <= limits.FAIR) and gap < _far(q, off)


def _far(q: Any, off: Moments | None) -> float:
    """Returns the nats from which on q has not the shape of the posterior: fewer where weights do
    not judge moments, and of independent normals of variables that depend on each other."""
    is_apart = not q.is_full and getattr(q, "reference", None) is None
    if off is None or not off.is_reliable or is_apart:
        return limits.FAR
    return max(limits.FAR_IN_ALL, limits.FAR_TOGETHER * off.num_numbers)


def _worst(off: Moments | None) -> float:
    """Returns the largest error of a mean or the logarithm of an sd, two standard errors included;
    inf if unknown."""
    if off is not None and off.is_reliable:
        return max(off.mean.most, off.log_sd.most)
    return np.inf


def _seen(off: Moments | None) -> float:
    """Returns the largest error that is seen."""
    return 0.0 if off is None else max(abs(off.mean.value), abs(off.log_sd.value))


def _hidden(off: Moments | None) -> float:
    """Returns the error of a single mean or sd that noise would hide, where many are judged
    together."""
    return 0.0 if off is None else off.hidden


def _of_use(off: Moments | None) -> str:
    """Says which of means and sds can be used."""
    if off is None or not off.is_reliable or _hidden(off) > limits.FAIR:
        return "means and sds may be off by some tenths"
    good = [
        name
        for name, part in (("means", off.mean), ("sds", off.log_sd))
        if part.most <= limits.GOOD
    ]
    bad = "sds" if good == ["means"] else "means" if good else "means and sds"
    use = f"{good[0]} can be used, but " if good else ""
    return f"{use}{bad} may be off by more than a tenth"


def _of_moments(off: Moments | None) -> list[str]:
    """Says how far means and sds are off, and how that was found."""
    if off is None:
        return ["How far means and sds are off was not judged."]
    at = lambda part: f" ({part.at})" if part.most > limits.GOOD else ""
    size = off.log_sd
    if off.is_reliable:
        means = f"means are off by up to {max(off.mean.most, 0.01):.2f} sd{at(off.mean)}"
        sds = f"sds are up to {_too(np.copysign(size.most, size.value))}{at(size)}"
        single = f" ({SINGLE.format(off=off)})" if off.hidden else ""
        return [f"By importance weights of {off.num_draws:,} draws {means}, and {sds}{single}."]
    doubt = f"k-hat {off.khat:.2f}, {off.ess:.0f} effective draws"
    means = f"means are off by {abs(off.mean.value):.2f} sd ({off.mean.at})"
    sds = f"sds are {_too(size.value)} ({size.at})"
    return [
        f"Importance weights are too uneven to judge by ({doubt}); by what they show {means}, and "
        f"{sds}, or more."
    ]


def _too(log_ratio: float) -> str:
    """Says the ratio of sds of q to those of the posterior, given its logarithm.

    >>> _too(-0.2), _too(0.2), _too(0.001), _too(20.0)
    ('18 % too small', '22 % too large', '1 % too large', 'more than ten times too large')
    """
    side = "small" if log_ratio < 0 else "large"
    if log_ratio > np.log(10.0):
        return f"more than ten times too {side}"
    percent = max(abs(100 * np.expm1(log_ratio)), 1.0)
    return f"{percent:.0f} % too {side}"


def _of_tails(gap: float, khat: float, off: Moments | None) -> list[str]:
    """Says whether tail probabilities can be relied on: the ratios have no heavy tail, and no sd is
    too small."""
    if gap >= limits.FAR:
        return []
    if khat > limits.KHAT_RELIABLE or (off is not None and off.log_sd.value < -limits.GOOD):
        return [HEAVY]
    return ["Tails are no heavier than those of q, as far as its draws reach."]


def _of_labels(searched: Others) -> list[str]:
    """Says which labels may be exchanged."""
    return [
        f"Labels can be exchanged: the density is the same with the entries of {listed(names)} in "
        "another order. q "
        "describes one labelling, and so do its means and sds."
        for names in searched.labels
    ]


def _of_others(searched: Others) -> list[str]:
    """Says which parts of the posterior q does not describe: other widths, other modes."""
    return [*_of_widths(searched), *_of_rivals(searched)]


def _of_widths(searched: Others) -> list[str]:
    """Says which parts about the same place have another width.

    >>> _of_widths(Others(widths=[("x[0]", 30.0)], share_of_widths=0.5))
    ['About 50 % of the posterior, by the bounds, is some 30 times as wide as q along x[0], which q does not describe.']
    """
    if not searched.widths:
        return []
    named = [name for name, _ in searched.widths if name]
    more = (
        f", {named[1]} and others"
        if len(named) > 2
        else f" and {named[1]}"
        if len(named) > 1
        else ""
    )
    along = f" along {named[0]}{more}" if named else ""
    times = searched.widths[0][1]
    size = f"{times:.0f} times as wide as" if times > 1 else f"{1 / times:.0f} times narrower than"
    share = f"About {100 * searched.share_of_widths:.0f} % of the posterior, by the bounds,"
    return [f"{share} is some {size} q{along}, which q does not describe."]


def _of_rivals(searched: Others) -> list[str]:
    """Says which other modes there are."""
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
    moved = (
        f"means move by up to {searched.mean:.1f} sd, and sds are up to {searched.sds:.1f} times "
        "as large"
    )
    return [
        f"The starts found {found} of similar weight, {holds} by the bounds, which q does not "
        "describe: with "
        f"{'it' if is_one else 'them'} {moved}. See fit.modes."
    ]


# --- mixtures -------------------------------------------------------------------------------------
def with_mixture(is_kept: bool, parts: int, more: float, error: float, words: str) -> str:
    """Returns a verdict with a sentence on the bound of a mixture of normals beside it.

    >>> with_mixture(True, 8, 0.2, 0.01, "Converged.")
    'Converged. A mixture of 8 normals was kept: its bound is 0.20 ± 0.01 nats above that of one normal.'
    >>> with_mixture(False, 8, 0.0, 0.02, "Converged.")
    'Converged. A mixture of 8 normals was tried and not kept: its bound is not higher (by 0.00 ± 0.02 nats).'
    """
    gained, mixture = f"{more:.2f} ± {error:.2f} nats", f"{words} A mixture of {parts} normals was"
    if is_kept:
        return f"{mixture} kept: its bound is {gained} above that of one normal."
    return f"{mixture} tried and not kept: its bound is not higher (by {gained})."


NO_GRADIENTS_LEFT = (
    "A mixture of normals was not tried, for its gradients are beyond max_gradients."
)


def mixture_spent(ended: Ended, rise: float, limit: int) -> str:
    """Says how much a mixture still gained where it stopped at the limit of gradients; empty where
    it did not."""
    if ended is not Ended.SPENT:
        return ""
    stopped = f"The mixture stopped at the limit of {limit:,} gradients"
    rose = f"where its bound still rose by {rise:.2f} nats in a thousand"
    return f"{stopped}, {rose if np.isfinite(rise) else 'with too few to settle'}."
