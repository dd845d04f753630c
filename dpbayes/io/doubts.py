"""Likely mistakes in the description of a release, found by holding it against the values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes.io.words import amount, plural, quoted, spread
from dpbayes.mechanism import Clamp, Rescale, Round, Suppress
from dpbayes.noise import CustomNoise, DiscreteLaplace, Laplace, NoNoise
from dpbayes.releases import HistogramRelease, RecordRelease

__all__ = ["Doubt", "doubts"]

#: A pattern whose probability under the stated mechanism is below this is doubted.
IMPROBABLE = 1e-3
#: Noise is negligible below this sd in counts, or below this share of the range of records.
NEGLIGIBLE_COUNT, NEGLIGIBLE_SHARE = 0.5, 1e-3
#: Noise dominates above this multiple of the range of records.
DOMINANT = 10.0
#: A sum of counts this many noise sds away from a public total is doubted.
FAR = 6.0
#: A value below 0 whose noise has a smaller probability is doubted.
BELOW = 1e-6
#: A cell this many noise sds from the sum of at least so many others looks like their total,
#: where that is a small share of it (so that it hardly happens by chance).
NEAR, LEAST_PARTS, LUCK = 3.0, 4, 0.005
_TOTAL = re.compile(r"\(?((grand|overall|sub)[ -]?)?(totals?|sum)( .*)?\)?|\(?(all|overall)\)?")
#: Steps of an undeclared rounding that are looked for.
COARSE = (1000.0, 100.0, 50.0, 25.0, 10.0, 5.0)


@dataclass(frozen=True)
class Doubt:
    """One likely mistake.

    Parameters
    ----------
    code : str
        Short name of the kind of mistake, such as ``undeclared-clamp``.
    text : str
        What is odd and what to check.
    """

    code: str
    text: str


def doubts(release: HistogramRelease | RecordRelease) -> Iterator[Doubt]:
    """Walk through the likely mistakes in the description of a release."""
    if isinstance(release.mechanism.noise, NoNoise):
        return
    yield from _scale_or_rate(release)
    yield from _convention(release)
    if isinstance(release, HistogramRelease):
        yield from _size_of_count_noise(release)
        yield from _never_negative(release)
        yield from _below_reach(release)
        yield from _totals_among_cells(release)
        yield from _far_total(release)
        yield from _far_margins(release)
    else:
        yield from _size_of_record_noise(release)
        yield from _outside_reach(release)
        yield from _never_outside(release)
    yield from _lattice(release)
    yield from _ties(release)


# -- is the noise of the stated size? ---------------------------------------------------


def _scale_or_rate(release: Any) -> Iterator[Doubt]:
    """Doubt a scale that contradicts the stated epsilon, or that looks like a rate."""
    noise, attrs = release.mechanism.noise, release.attrs
    if not isinstance(noise, Laplace | DiscreteLaplace) or noise.shape:
        return
    scale, epsilon, sensitivity = noise.scale, attrs.get("epsilon"), attrs.get("sensitivity")
    if epsilon is not None and sensitivity is not None:
        expected = sensitivity / epsilon
        if abs(scale / expected - 1) > 0.01:
            rate = abs(scale * expected - 1) < 0.02 or abs(scale / epsilon - 1) < 0.02
            why = " A rate (or epsilon) seems to have been given for the scale." if rate else ""
            yield Doubt(
                "scale-contradicts-epsilon",
                f"The scale is {amount(scale)}, but epsilon {epsilon:g} with sensitivity "
                f"{sensitivity:g} means scale {amount(expected)}.{why}",
            )
        elif isinstance(release, HistogramRelease) and scale < 1 and epsilon > 1:
            yield _swapped(scale, epsilon, sensitivity)
        return
    if scale < 1 and isinstance(release, HistogramRelease):
        stated = "" if epsilon is None else f" (epsilon {epsilon:g} is stated)"
        yield Doubt(
            "rate-for-scale",
            f"A Laplace scale of {amount(scale)} means a standard deviation of "
            f"{amount(float(noise.sd))}: hardly any noise{stated}. If {amount(scale)} is "
            f"epsilon (a rate), the scale is sensitivity/{amount(scale)}: "
            f"{amount(1 / scale)} for sensitivity 1.",
        )


def _swapped(scale: float, epsilon: float, sensitivity: float) -> Doubt:
    return Doubt(
        "scale-for-epsilon",
        f"Epsilon {epsilon:g} is large: it means a scale of only {amount(scale)}. If "
        f"{epsilon:g} is the scale of the noise, epsilon is {amount(sensitivity / epsilon)}: "
        f"give scale = {epsilon:g} instead.",
    )


def _convention(release: Any) -> Iterator[Doubt]:
    """Doubt an epsilon whose neighbours are not stated."""
    attrs, noise = release.attrs, release.mechanism.noise
    if not isinstance(release, HistogramRelease) or "neighbours" in attrs:
        return
    if "epsilon" not in attrs or "sensitivity" not in attrs or isinstance(noise, CustomNoise):
        return
    if not isinstance(noise, Laplace | DiscreteLaplace):
        return
    scale = np.asarray(noise.scale)
    yield Doubt(
        "neighbours-not-stated",
        "Neighbours are not stated (replace-one or add-remove). Sensitivities differ by a "
        f"factor of 2: if sensitivity {attrs['sensitivity']:g} belongs to the other convention, "
        f"the scale is {spread(scale / 2)} or {spread(scale * 2)}, not {spread(scale)}.",
    )


def _size_of_count_noise(release: HistogramRelease) -> Iterator[Doubt]:
    noise = release.mechanism.noise
    sd = np.broadcast_to(np.asarray(noise.sd, float), release.values.shape)
    statistic = np.abs(_statistic(release))
    if np.all(sd < NEGLIGIBLE_COUNT):
        yield Doubt(
            "noise-negligible",
            f"The noise has a standard deviation of {spread(sd)}: most counts are published as "
            "they are. Check the scale, and whether epsilon was meant.",
        )
    seen = ~np.isnan(statistic)
    if seen.any() and np.all(statistic[seen] < 2 * sd[seen]):
        yield Doubt(
            "noise-dominates",
            "Every value lies within two standard deviations of the noise from 0 (largest "
            f"{amount(float(np.max(statistic[seen])))}, standard deviation {spread(sd)}): single "
            "counts say next to nothing. Check the scale, unless that is how it is.",
        )


def _size_of_record_noise(release: RecordRelease) -> Iterator[Doubt]:
    low, high = release.bounds
    share = float(release.mechanism.noise.sd) / (high - low)
    if share < NEGLIGIBLE_SHARE:
        yield Doubt(
            "noise-negligible",
            f"The noise has a standard deviation of {share:.1e} of the range of the records: "
            "they are published almost as they are. Check the scale: a scale for records in "
            f"[0, 1] must be multiplied by {amount(high - low)} for these bounds.",
        )
    elif share > DOMINANT:
        yield Doubt(
            "noise-dominates",
            f"The noise has a standard deviation of {amount(share)} times the range of the "
            "records. Check the scale and the bounds.",
        )


# -- do the values look as the mechanism says? -------------------------------------------


def _statistic(release: Any) -> np.ndarray:
    """Released values in the units of the statistic, before any rescaling."""
    values = np.asarray(release.values, dtype=float)
    for step in release.mechanism.steps:
        if isinstance(step, Rescale):
            values = values / step.factor
    return values


def _has(release: Any, *kinds: type) -> bool:
    return any(isinstance(step, kinds) for step in release.mechanism.steps)


def _never_negative(release: HistogramRelease) -> Iterator[Doubt]:
    """Doubt that nothing was clamped where no value is negative although many should be."""
    if _has(release, Clamp, Suppress):
        return
    values, noise = _statistic(release), release.mechanism.noise
    if np.isnan(values).any() or (values < 0).any():
        return
    half = 0.5 if noise.is_lattice or _has(release, Round) else 0.0
    naive = np.maximum(np.rint(values), 0.0)
    log_probability = float(np.sum(noise.log_interval(-naive - half, np.inf)))
    if log_probability < np.log(IMPROBABLE):
        zeros = int((values == 0).sum())
        are = "is" if zeros == 1 else "are"
        also = f" {zeros:,} of {values.size:,} values {are} exactly 0." if zeros else ""
        yield Doubt(
            "undeclared-clamp",
            "No value is negative, which under the stated noise has a probability of about "
            f"{_probability(log_probability)}.{also} Negative values were probably set to 0 "
            "after the noise: then state steps = [{ clamp = { lower = 0 } }], or the zeros will "
            "be taken for measurements.",
        )


def _probability(log_probability: float) -> str:
    if log_probability < -690:
        return f"1e{log_probability / np.log(10):.0f}"
    return f"{np.exp(log_probability):.1g}"


def _below_reach(release: HistogramRelease) -> Iterator[Doubt]:
    """Doubt values so far below 0 that no count and hardly any noise gives them."""
    parts: list[Any] = [release, *release.margins]
    for part in parts:
        observed = part.observations()
        if isinstance(observed.noise, CustomNoise | NoNoise):
            continue
        upper = observed.bounds.upper
        # The probability of a value as low as this is largest for a true count of 0.
        chance = np.broadcast_to(observed.noise.log_interval(-np.inf, upper), upper.shape)
        low = np.flatnonzero((upper < 0) & (chance < np.log(min(BELOW, IMPROBABLE / upper.size))))
        if not low.size:
            continue
        sd = np.broadcast_to(np.asarray(observed.noise.sd, float), upper.shape)
        named = [
            f"{part.label(i)} is {quoted(part.values.values.flat[i])}, "
            f"{amount(float(-upper[i] / sd[i]))} standard deviations of the noise below 0"
            for i in low[np.argsort(chance[low])][:3]
        ]
        more = f" ({low.size - 3:,} more like it)" if low.size > 3 else ""
        yield Doubt(
            "below-reach",
            f"{'; '.join(named)}{more}: even for a true count of 0, noise as low as that has a "
            f"probability of about {_probability(float(chance[low].min()))}. Check the values, "
            "whether they are counts, and the scale.",
        )


def _totals_among_cells(release: HistogramRelease) -> Iterator[Doubt]:
    """Doubt a cell, or a slice of a table, that is the sum of the others."""
    if release.edges is not None:
        return
    values = release.values.copy(data=_statistic(release))
    variance = np.broadcast_to(np.asarray(release.mechanism.noise.sd, float) ** 2, values.shape)
    for axis, dim in enumerate(release.dims):
        others = tuple(i for i in range(values.ndim) if i != axis)
        sums = values.values.sum(axis=others)
        reach = NEAR * np.sqrt(variance.sum() + values.size * _rounding(release))
        gap = np.abs(2.0 * sums - sums.sum())  # between a slice and the sum of the others
        small = reach < LUCK * np.abs(sums)
        labels = values[dim].values if dim in values.coords else np.arange(sums.size)
        for label, total, near, telling in zip(labels, sums, gap <= reach, small, strict=True):
            named = isinstance(label, str) and _TOTAL.fullmatch(label.strip().lower())
            if not ((named and sums.size > 1) or (near and telling and sums.size >= LEAST_PARTS)):
                continue
            by = ", ".join(f'"{d}"' for d in release.dims if d != dim)
            figures = ""
            if near:
                rest = float(sums.sum() - total)
                figures = f" ({amount(float(total), 6)}; they add up to {amount(rest, 6)})"
            yield Doubt(
                "total-among-cells",
                f"{dim} {str(label)!r} looks like the sum of the others{figures}: every record "
                "would count twice. If it is, leave it out and give it as a total of its own: "
                f"[[margins]] with by = [{by}] in a release file, with_margin in Python.",
            )
            break


def _far_total(release: HistogramRelease) -> Iterator[Doubt]:
    """Doubt a public total far from the sum of the counts."""
    values = _statistic(release)
    if release.total is None or np.isnan(values).any():
        return
    sd = np.broadcast_to(np.asarray(release.mechanism.noise.sd, float), values.shape)
    rounding = _rounding(release)
    reach = FAR * np.sqrt(np.sum(sd**2 + rounding))
    excess = float(values.sum()) - release.total
    # A clamp moves the sum to one side, by an amount that the true counts decide.
    clamps = [step for step in release.mechanism.steps if isinstance(step, Clamp)]
    too_high = excess > reach and not any(c.lower is not None for c in clamps)
    too_low = excess < -reach and not any(c.upper is not None for c in clamps)
    if too_high or too_low:
        yield Doubt(
            "total-far-from-sum",
            f"The counts add up to {amount(float(values.sum()))}, the public total is "
            f"{release.total:,}: {amount(abs(excess) * FAR / reach)} standard deviations of the "
            "noise apart. Check the total (do records count in more than one cell?) and the scale.",
        )


def _far_margins(release: HistogramRelease) -> Iterator[Doubt]:
    """Doubt totals of groups far from the sums of their cells."""
    if _has(release, Clamp, Suppress):
        return  # these move sums to one side, by an amount that the true counts decide
    values = _statistic(release).reshape(-1)
    sd = np.broadcast_to(np.asarray(release.mechanism.noise.sd, float), release.values.shape)
    variance = sd.reshape(-1) ** 2 + _rounding(release)
    for margin in release.margins:
        totals = _statistic(margin).reshape(-1)
        own = np.broadcast_to(np.asarray(margin.mechanism.noise.sd, float), margin.values.shape)
        reach = FAR * np.sqrt(margin.sums(variance) + own.reshape(-1) ** 2 + _rounding(margin))
        gap = totals - margin.sums(values)
        if _has(margin, Clamp):
            continue
        far = np.flatnonzero(np.abs(gap) > reach)  # a suppressed total is NaN: never far
        if not far.size:
            continue
        worst = int(far[np.argmax(np.abs(gap[far]) / np.maximum(reach[far], 1e-300))])
        more = f" ({far.size - 1} more like it)" if far.size > 1 else ""
        yield Doubt(
            "margin-far-from-sum",
            f"The released {margin.label(worst)} is {amount(float(totals[worst]))}, its cells add "
            f"up to {amount(float(totals[worst] - gap[worst]))}: more than {FAR:g} standard "
            f"deviations of the noise apart{more}. Check which cells the total covers (do records "
            "count in more than one?), its units and the scales.",
        )


def _rounding(release: Any) -> float:
    """Variance that rounding adds to one value."""
    return sum(s.step**2 / 4 for s in release.mechanism.steps if isinstance(s, Round))


def _outside_reach(release: RecordRelease) -> Iterator[Doubt]:
    """Doubt bounds that no noise of the stated size explains."""
    noise, (low, high) = release.mechanism.noise, release.bounds
    if isinstance(noise, CustomNoise) or _has(release, Clamp):
        return
    values = _statistic(release)
    values = values[~np.isnan(values)]
    rounding = sum(s.step for s in release.mechanism.steps if isinstance(s, Round))
    reach = float(noise.ppf(1.0 - 0.5 * IMPROBABLE / max(values.size, 1))) + rounding
    beyond = (values < low - reach) | (values > high + reach)
    if beyond.any():
        worst = values[beyond][np.argmax(np.abs(values[beyond] - (low + high) / 2))]
        yield Doubt(
            "outside-reach",
            f"{plural(int(beyond.sum()), 'record lies', 'records lie')} (such as "
            f"{amount(float(worst), 6)}) farther outside [{amount(low)}, {amount(high)}] "
            f"than the stated noise reaches ({amount(reach)}, beyond which any record lies with a "
            f"probability of {IMPROBABLE:g}). Check the bounds and the scale.",
        )


def _never_outside(release: RecordRelease) -> Iterator[Doubt]:
    """Doubt that nothing was clamped where no record lies outside the bounds."""
    if _has(release, Clamp, Suppress):
        return
    values, (low, high) = _statistic(release), release.bounds
    if np.isnan(values).any() or (values < low).any() or (values > high).any():
        return
    half = 0.5 * (high - low)
    margin = 1e-6 * half + sum(s.step for s in release.mechanism.steps if isinstance(s, Round))
    # The probability of staying inside is largest for a true value in the middle.
    inside = float(release.mechanism.noise.log_interval(-half - margin, half + margin))
    if inside * values.size < np.log(IMPROBABLE):
        yield Doubt(
            "undeclared-clamp",
            f"No record lies outside [{amount(low)}, {amount(high)}], which under the stated "
            f"noise has a probability below {_probability(inside * values.size)}. Values were "
            "probably set to the bounds after the noise: then state "
            f"steps = [{{ clamp = {{ lower = {low:g}, upper = {high:g} }} }}].",
        )


def _measured(release: Any) -> np.ndarray:
    """Values that are no end of a clamp and not suppressed."""
    values = np.asarray(release.values, dtype=float).reshape(-1)
    ends = [s.lower for s in release.mechanism.steps if isinstance(s, Clamp)]
    ends += [s.upper for s in release.mechanism.steps if isinstance(s, Clamp)]
    keep = ~np.isnan(values) & ~np.isin(values, [e for e in ends if e is not None])
    return values[keep]


def _lattice(release: Any) -> Iterator[Doubt]:
    """Doubt that nothing was rounded where all values are multiples of something."""
    values, noise = _measured(release), release.mechanism.noise
    if _has(release, Round, Rescale) or values.size < 2:
        return
    if not noise.is_lattice and np.all(values == np.rint(values)):
        yield Doubt(
            "undeclared-rounding",
            "All values are whole numbers, which continuous noise never gives. Either the noise "
            "is on the integers (discrete-laplace, discrete-gaussian) or the values were rounded: "
            "then state the step { round = {} }.",
        )
        return
    for step in COARSE:
        coarse = step > max(noise.step, 1.0) and np.all(values % step == 0)
        # Whole numbers are all multiples of a step with probability step^-size, for each step.
        chance = -values.size * np.log(step) + np.log(len(COARSE))
        if coarse and np.any(values != 0) and chance < np.log(IMPROBABLE):
            yield Doubt(
                "undeclared-rounding",
                f"All values are multiples of {step:g}, which the stated noise does not explain. "
                f"They were probably rounded: then state {{ round = {{ step = {step:g} }} }}.",
            )
            return


def _ties(release: Any) -> Iterator[Doubt]:
    """Doubt that nothing was clamped where a value repeats under continuous noise."""
    values = _measured(release)
    if release.mechanism.noise.is_lattice or _has(release, Round) or values.size < 2:
        return
    if np.all(values == np.rint(values)):
        return  # rounding has been named
    found, times = np.unique(values, return_counts=True)
    most = int(np.argmax(times))
    if times[most] > max(2, 1e-3 * values.size):
        yield Doubt(
            "repeated-value",
            f"The value {quoted(found[most])} occurs {times[most]:,} times, which continuous noise "
            "never gives: check whether values were clamped there or rounded.",
        )
