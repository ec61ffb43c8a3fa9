"""Sentences on whether to trust a fit: how it ended, how far means and sds may be off, tails, and
other modes.

The first part has the words of all verdicts, the second the verdict of `vijax.auto` and
`vijax.dadvi`. `vijax.verdict.words_of_steps` has fits by steps, `vijax.verdict.limits` the limits.
Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vijax.verdict import limits
from vijax.verdict.report import Ended, Moments, Others


def join_names(names: Sequence[str]) -> str:
    """Names with commas and "and" between them.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    if len(names) <= 1:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def zeros_sentence(share: float) -> str:
    """A sentence on draws of q at which the density is zero."""
    return (
        f"the density is zero, or no number, at {share:.1%} of the draws of q, so the bound is "
        "minus infinity."
    )


def distance_words(gap: float, khat: float, bound: str = "") -> str:
    """The distance of q from the posterior, in brackets."""
    ending = f", bound {bound}" if bound else ""
    return f"(at least {max(gap, 0.0):.2f} nats from it, k-hat {khat:.2f}{ending})"


SUPPORTS = (
    "Declare the supports of the variables, vijax.free(support=...), so that no draw is outside."
)
SUPPORTS_THERE = (
    "Give the variables laws in {source} whose supports keep every draw inside; or compute in "
    "float64: jax.config.update('jax_enable_x64', True) before the model is taken."
)
HEAVY = "The tails of the posterior are heavier than those of q: do not rely on tail probabilities."
INDEPENDENT = "Variables are independent under q: its sds are too small where they are correlated."
JOINED = "Free variables are independent of conjugate ones under q."
IMPROPER = (
    "Do not use this fit: the bound grows without limit {along}. The density is improper. Give "
    "every variable a proper prior."
)
MORE = (
    "Go on with vijax.fit(fit.alg, data, key=key, state=fit.state, num_epochs=...), counted from "
    "the first."
)


def supports_remedy(source: str, remedy: str = SUPPORTS) -> str:
    """The remedy for draws at which the density is zero: another one for a model that was written
    in another library, the source; "" is vijax."""
    if source:
        return SUPPORTS_THERE.format(source=source)
    return remedy


def end_sentence(is_interrupted: bool, is_flat: bool, flat_sentence: str) -> str:
    """A sentence on how a fit by steps ended: `flat_sentence` if the bound rose no more."""
    if is_interrupted:
        return f"Stopped early, by Ctrl-C. {MORE}"
    return flat_sentence if is_flat else f"Not converged: the bound still rose at the end. {MORE}"


def start_sentences(num_starts: int, num_best: int) -> list[str]:
    """A sentence on the starts that reached the best bound; `num_best` is 0 if all starts were
    equal."""
    if not num_best:
        return ["All starts were the same: where this model starts is not random."]
    doubt = "" if num_best > 1 else ": there may be a better one"
    return [f"{num_best} of {num_starts} starts reached the best bound{doubt}."]


# --- fits by vijax.auto and vijax.dadvi -----------------------------------------------------------
ENDS = {
    Ended.CONVERGED: "Converged.",
    Ended.LIMITED: (
        "Stopped where the noise of its draws is all that is left: it moves the means by up to "
        "{error:.2f} sd. For less, raise max_gradients or max_draws."
    ),
    Ended.SPENT: "Not converged: it stopped at its limit of gradients. Raise max_gradients.",
    Ended.PASSES: "Not quite converged: the last pass over the data still changed q a little.",
    Ended.UNSOLVED: (
        "Not converged: Newton's steps on the fixed draws found no maximum. Variances may be "
        "without bound, or rounding is in the way: rescale the variables."
    ),
    Ended.TOO_FEW: (
        "Its fixed draws were too few: the bound on them is far above that on fresh ones, and its "
        "sds may be off by half. Raise num_draws, above the number of variables if need be."
    ),
    Ended.INTERRUPTED: "Stopped early, by Ctrl-C: this is the best q found so far.",
    Ended.UNBOUNDED: IMPROPER.format(along="as q gets wider"),
}
SPENT_NEAR = "It stopped at its limit of gradients: with a larger max_gradients it may come nearer."
SINGLE = "{off.num_numbers:,} of each were judged together; one off by {off.hidden:.2f} would show"
ROUGH = (
    "The log density is so large that it is rounded to {rounding:.1g} nats, so how far means and "
    "sds are off was not judged. Subtract a constant from it, or compute in float64: "
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
    source: str = "",
) -> str:
    """The verdict, a few sentences: how the fit ended; how near q is to the posterior; means and
    sds, tails, and other modes.

    q is a `Gaussian` or `Mixture`, `searched` is `Report.others`, and the other arguments are named
    as in `Report`.

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
    end = ENDS[q.ended].format(error=q.error)
    if q.ended is Ended.UNBOUNDED:
        return end
    if zero > limits.RARE:
        return f"Do not use this fit: {zeros_sentence(zero)} {supports_remedy(source)}"
    texts = []
    if zero > 0:
        zeros = zeros_sentence(zero).capitalize()
        texts.append(f"{zeros} What follows is about the others. {supports_remedy(source)}")
    searches = [
        *_label_sentences(searched),
        *_width_sentences(searched),
        *_mode_sentences(searched),
    ]
    if rounding > limits.ROUNDING_HIDES:
        return " ".join([*texts, end, ROUGH.format(rounding=rounding), *searches])
    is_one_of_many = searched.others > 0 or bool(searched.widths)
    judged = [
        _shape_sentence(gap, khat, q, off, is_one_of_many),
        *_moment_sentences(off),
        *_tail_sentences(gap, khat, off),
    ]
    if q.ended is Ended.SPENT and _is_near(q, gap, off):
        # First what the fit is good for, then that more gradients would be better.
        texts += [*judged, SPENT_NEAR]
    else:
        texts += [end, *judged]
    if not q.is_full and gap < limits.FAR:
        but = f", but along {q.num_directions} directions," if q.num_directions else ""
        texts.append(INDEPENDENT.replace(" under q", f" under q{but}"))
    return " ".join([*texts, *searches])


def is_usable(ended: Ended, zero: float) -> bool:
    """False where the verdict begins with "Do not use this fit"."""
    return ended is not Ended.UNBOUNDED and zero <= limits.RARE


def _shape_sentence(
    gap: float, khat: float, q: Any, off: Moments | None, is_one_of_many: bool
) -> str:
    """A sentence on how far q is from the posterior, and whether means and sds may be used."""
    numbers = distance_words(gap, khat)
    posterior = "its part of the posterior" if is_one_of_many else "the posterior"
    has_shape = gap < _far_gap(q, off)
    if _largest_error(off) <= limits.GOOD and _hidden_error(off) <= limits.FAIR and has_shape:
        part = " for that part alone" if is_one_of_many else ""
        return f"q is close to {posterior} {numbers}: means and sds can be used{part}."
    if _visible_error(off) <= limits.FAIR and has_shape:
        return f"q is near {posterior} {numbers}: {_use_words(off)}."
    sampler = "Write the density in other coordinates, or use a sampler."
    if q.num_directions:
        form = f"A normal with {q.num_directions} directions of dependence"
        return (
            f"{form} does not describe {posterior} {numbers}: sds, and perhaps means, are wrong. "
            f"{sampler}"
        )
    if not q.is_full:
        return (
            f"Independent normals do not describe {posterior} {numbers}: sds are too small. Means "
            "are often right; vijax.linear_response corrects the sds; a sampler would tell."
        )
    return (
        f"{posterior.capitalize()} does not have the shape of q {numbers}: sds, and perhaps means, "
        f"are wrong. {sampler}"
    )


def _is_near(q: Any, gap: float, off: Moments | None) -> bool:
    """True where means or sds, or both, can be used."""
    is_good = _largest_error(off) <= limits.GOOD and _hidden_error(off) <= limits.FAIR
    return (is_good or _visible_error(off) <= limits.FAIR) and gap < _far_gap(q, off)


def _far_gap(q: Any, off: Moments | None) -> float:
    """The nats from which on q does not have the shape of the posterior: fewer if weights do not
    judge moments, or q are independent normals of dependent variables."""
    is_mean_field = not q.is_full and getattr(q, "reference", None) is None
    if off is None or not off.is_reliable or is_mean_field:
        return limits.FAR
    return max(limits.FAR_IN_ALL, limits.FAR_TOGETHER * off.num_numbers)


def _largest_error(off: Moments | None) -> float:
    """The largest error of a mean or the logarithm of an sd, two standard errors included; inf if
    unknown."""
    if off is not None and off.is_reliable:
        return max(off.mean.most, off.log_sd.most)
    return np.inf


def _visible_error(off: Moments | None) -> float:
    """The largest error without its standard error."""
    return 0.0 if off is None else max(abs(off.mean.value), abs(off.log_sd.value))


def _hidden_error(off: Moments | None) -> float:
    """The error of a single mean or sd that noise would hide when many are judged together."""
    return 0.0 if off is None else off.hidden


def _use_words(off: Moments | None) -> str:
    """The words on the use of means and sds: which of them may be off."""
    if off is None or not off.is_reliable or _hidden_error(off) > limits.FAIR:
        return "means and sds may be off by some tenths"
    if off.mean.most <= limits.GOOD:
        return "means can be used, but sds may be off by more than a tenth"
    if off.log_sd.most <= limits.GOOD:
        return "sds can be used, but means may be off by more than a tenth"
    return "means and sds may be off by more than a tenth"


def _moment_sentences(off: Moments | None) -> list[str]:
    """A sentence on how far means and sds are off, and how that is known."""
    if off is None:
        return ["How far means and sds are off was not judged."]
    name = lambda part: f" ({part.at})" if part.most > limits.GOOD else ""
    size = off.log_sd
    if off.is_reliable:
        means = f"means are off by up to {max(off.mean.most, 0.01):.2f} sd{name(off.mean)}"
        sds = f"sds are up to {_ratio_words(np.copysign(size.most, size.value))}{name(size)}"
        single = f" ({SINGLE.format(off=off)})" if off.hidden else ""
        return [f"By importance weights of {off.num_draws:,} draws {means}, and {sds}{single}."]
    doubt = f"k-hat {off.khat:.2f}, {off.ess:.0f} effective draws"
    means = f"means are off by {abs(off.mean.value):.2f} sd ({off.mean.at})"
    sds = f"sds are {_ratio_words(size.value)} ({size.at})"
    return [
        f"Importance weights are too uneven to judge by ({doubt}); by what they show {means}, and "
        f"{sds}, or more."
    ]


def _ratio_words(log_ratio: float) -> str:
    """The ratio of sds of q to sds of the posterior in words, from its logarithm.

    >>> _ratio_words(-0.2), _ratio_words(0.2), _ratio_words(0.001), _ratio_words(20.0)
    ('18 % too small', '22 % too large', '1 % too large', 'more than ten times too large')
    """
    side = "small" if log_ratio < 0 else "large"
    if log_ratio > np.log(10.0):
        return f"more than ten times too {side}"
    percent = max(abs(100 * np.expm1(log_ratio)), 1.0)
    return f"{percent:.0f} % too {side}"


def _tail_sentences(gap: float, khat: float, off: Moments | None) -> list[str]:
    """A sentence on tail probabilities: reliable if the ratios have no heavy tail, and no sd is too
    small."""
    if gap >= limits.FAR:
        return []
    if khat > limits.KHAT_RELIABLE or (off is not None and off.log_sd.value < -limits.GOOD):
        return [HEAVY]
    return ["Tails are no heavier than those of q, as far as its draws reach."]


def _label_sentences(searched: Others) -> list[str]:
    """Sentences on labels that may be exchanged."""
    return [
        "Labels can be exchanged: the density is the same with the entries of "
        f"{join_names(names)} in another order. q describes one labelling, and so do its means and "
        "sds."
        for names in searched.labels
    ]


def _width_sentences(searched: Others) -> list[str]:
    """A sentence on parts of the posterior at the same place that have another width.

    >>> _width_sentences(Others(widths=[("x[0]", 30.0)], share_of_widths=0.5))
    ['About 50 % of the posterior, by the bounds, is some 30 times as wide as q along x[0], which q does not describe.']
    """
    if not searched.widths:
        return []
    names = [name for name, _ in searched.widths if name]
    along = ""
    if len(names) == 1:
        along = f" along {names[0]}"
    elif len(names) == 2:
        along = f" along {names[0]} and {names[1]}"
    elif names:
        along = f" along {names[0]}, {names[1]} and others"
    times = searched.widths[0][1]
    size = f"{times:.0f} times as wide as" if times > 1 else f"{1 / times:.0f} times narrower than"
    share = f"About {100 * searched.share_of_widths:.0f} % of the posterior, by the bounds,"
    return [f"{share} is some {size} q{along}, which q does not describe."]


def _mode_sentences(searched: Others) -> list[str]:
    """A sentence on other modes."""
    if not searched.num_starts:
        return ["Other modes were not looked for."]
    starts = f"searches from {searched.num_starts} starts"
    if not searched.others:
        if searched.inside > 1:
            return [f"Other modes: q describes all {searched.inside} that {starts} found."]
        return [f"Other modes: none was found by {starts}."]
    modes, pronoun = f"{searched.others} other modes", "them"
    if searched.others == 1:
        modes, pronoun = "another mode", "it"
    share = f"about {100 * searched.share:.0f} % of the posterior"
    change = (
        f"means move by up to {searched.mean:.1f} sd, and sds are up to {searched.sds:.1f} times "
        "as large"
    )
    return [
        f"The starts found {modes} of similar weight, {share} by the bounds, which q does not "
        f"describe: with {pronoun} {change}. See fit.modes."
    ]


# --- mixtures -------------------------------------------------------------------------------------
def with_mixture(is_kept: bool, parts: int, gain: float, error: float, words: str) -> str:
    """A verdict, and a sentence on the bound of a mixture of normals beside the normal's.

    >>> with_mixture(True, 8, 0.2, 0.01, "Converged.")
    'Converged. A mixture of 8 normals was kept: its bound is 0.20 ± 0.01 nats above that of one normal.'
    >>> with_mixture(False, 8, 0.0, 0.02, "Converged.")
    'Converged. A mixture of 8 normals was tried and not kept: its bound is not higher (by 0.00 ± 0.02 nats).'
    """
    gain_words = f"{gain:.2f} ± {error:.2f} nats"
    subject = f"{words} A mixture of {parts} normals was"
    if is_kept:
        return f"{subject} kept: its bound is {gain_words} above that of one normal."
    return f"{subject} tried and not kept: its bound is not higher (by {gain_words})."


NO_GRADIENTS_LEFT = (
    "A mixture of normals was not tried, for its gradients are beyond max_gradients."
)


def mixture_end_sentence(ended: Ended, rise: float, limit: int) -> str:
    """A sentence on a mixture that stopped at the limit of gradients; "" for another end."""
    if ended is not Ended.SPENT:
        return ""
    detail = "with too few to settle"
    if np.isfinite(rise):
        detail = f"where its bound still rose by {rise:.2f} nats in a thousand"
    return f"The mixture stopped at the limit of {limit:,} gradients, {detail}."
