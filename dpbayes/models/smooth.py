"""Smooth prior on a distribution with atoms: mode, evidence and whitening, as array maths.

P is a mixture of K cells (or K points) with weights softmax(θ) and of m atoms whose masses
relative to the cells are exp(η):

    θ = τ B u,  u ~ N(0, I);   η = mean + sd a,  a ~ N(0, I);   τ ~ Gamma(shape, rate).

θ is a random walk of order 1 or 2 on the log weights, scaled so that its average variance is
τ² whatever K and the units (Sørbye & Rue 2014). τ is between 0.5 and 6 with 95 % probability;
its upper tail is exponential, as weights that vary by e^±20 are no belief that anyone holds.
Given P the counts of the released cells are multinomial with probabilities A w.

References
----------
Sørbye, S. H. & Rue, H. (2014), Scaling intrinsic Gaussian Markov random field priors in
spatial modelling, Spatial Statistics 8.
Rue, H., Martino, S. & Chopin, N. (2009), Approximate Bayesian inference for latent Gaussian
models, JRSS B 71, section 3 (Laplace approximation on a grid of the scale).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from dpbayes.errors import DPBayesError, ParameterError

__all__ = ["Likelihood", "Mode", "ScaleFit", "SmoothLaw", "find_mode", "fit_scale"]

TAU_SHAPE, TAU_RATE = 3.0, 1.2
ATOM_MEAN, ATOM_SD = -2.5, 1.5
SLOPE_SHARE = 0.5  # of the average variance of θ under order 2
NEWTON_STEPS = 200
NEWTON_TOLERANCE = 1e-9  # nats left to gain
GRID_STEP = 0.5  # in log τ
GRID_DROP = 9.0  # nats below the top at which the grid ends
GRID_REACH = 4.0  # on either side of the prior mean of τ


@dataclass(frozen=True)
class SmoothLaw:
    """Law of the weights given the scale τ.

    Parameters
    ----------
    cells : int
        Number K of cells of equal width (or of consecutive whole numbers).
    order : {1, 2}
        1: increments of the log weights are independent; 2: their differences are, and the
        slope has half of the average variance.
    atoms : int
        Number m of atoms; mass of each relative to the cells is log-normal, with median 0.08
        and 95 % between 0.004 and 1.6.
    """

    cells: int
    order: int
    atoms: int = 0

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ParameterError(f"order must be 1 or 2, got {self.order!r}")
        if self.cells <= self.order:
            raise ParameterError(
                f"cells must exceed the order of the random walk ({self.order}), got {self.cells}"
            )

    @property
    def rank(self) -> int:
        """Number of degrees of freedom of θ."""
        return self.cells - 1

    @cached_property
    def root(self) -> np.ndarray:
        """Matrix B (K × K-1) with θ = τ B u; its columns sum to zero."""
        size = self.cells
        differences = np.diff(np.eye(size), self.order, axis=0)
        value, vector = np.linalg.eigh(differences.T @ differences)
        free = self.order  # level, and slope
        root = vector[:, free:] / np.sqrt(value[free:])
        root -= root.mean(axis=0)
        root /= np.sqrt(np.mean(np.sum(root**2, axis=1)))
        if self.order == 1:
            return root
        slope = np.linspace(-1.0, 1.0, size)
        slope *= np.sqrt(SLOPE_SHARE / np.mean(slope**2))
        return np.column_stack([slope, np.sqrt(1.0 - SLOPE_SHARE) * root])

    @cached_property
    def level(self) -> np.ndarray:
        """Prior mean of (θ/τ, η)."""
        return np.r_[np.zeros(self.cells), np.full(self.atoms, ATOM_MEAN)]

    @cached_property
    def transform(self) -> np.ndarray:
        """Matrix that takes standard normal (u, a) to (θ/τ, η) less its prior mean."""
        return linalg.block_diag(self.root, ATOM_SD * np.eye(self.atoms))

    def scale(self, tau: float) -> np.ndarray:
        """Factors that take (θ/τ, η) to (θ, η)."""
        return np.r_[np.full(self.cells, tau), np.ones(self.atoms)]

    def at(self, tau: float, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log weights θ and log odds η of a point (u, a)."""
        both = self.scale(tau) * (self.level + self.transform @ point)
        return both[: self.cells], both[self.cells :]

    def weights(self, theta: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Weights of cells and atoms, (..., K + m), from log weights and log relative masses."""
        smooth = special.log_softmax(theta, axis=-1)
        return special.softmax(np.concatenate([smooth, eta], axis=-1), axis=-1)

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Prior draws of the weights, (draws, K + m), and of log τ."""
        tau = rng.gamma(TAU_SHAPE, 1.0 / TAU_RATE, draws)
        theta = tau[:, None] * (rng.normal(size=(draws, self.rank)) @ self.root.T)
        eta = rng.normal(ATOM_MEAN, ATOM_SD, (draws, self.atoms))
        return self.weights(theta, eta), np.log(tau)


@dataclass(frozen=True)
class Likelihood:
    """Multinomial log likelihood Σ_j c_j log (A w)_j and its derivatives.

    Parameters
    ----------
    table : numpy.ndarray, shape (J, K + m)
        A[j, k], probability of released cell j given basis element k.
    counts : numpy.ndarray, shape (J,)
        Records by released cell.
    law : SmoothLaw
        Maps (θ, η) to weights.
    """

    table: np.ndarray
    counts: np.ndarray
    law: SmoothLaw

    @cached_property
    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the table and counts where there are records."""
        occupied = self.counts > 0
        return np.ascontiguousarray(self.table[occupied]), self.counts[occupied].astype(float)

    def value(self, theta: np.ndarray, eta: np.ndarray) -> float:
        """Log likelihood, without the multinomial coefficient."""
        table, counts = self.seen
        with np.errstate(divide="ignore"):
            return float(counts @ np.log(table @ self.law.weights(theta, eta)))

    def derivatives(
        self, theta: np.ndarray, eta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, observed and expected information with respect to (θ, η)."""
        table, counts = self.seen
        w = self.law.weights(theta, eta)
        total, size = counts.sum(), self.law.cells
        p = table @ w
        responsibility = w * (table.T @ (counts / p))  # expected records by basis element
        gradient = responsibility - total * w
        multinomial = total * (np.diag(w) - np.outer(w, w))
        scaled = table * (np.sqrt(counts) / p)[:, None] * w
        observed = multinomial - np.diag(responsibility) + scaled.T @ scaled
        every = self.table @ w
        root = self.table * w / np.sqrt(np.where(every > 0, every, 1.0))[:, None]
        expected = total * (root.T @ root - np.outer(w, w))
        # From logits to (θ, η): the logit of a cell is θ_k - logsumexp(θ).
        share = special.softmax(theta)
        inner = gradient[:size].sum()
        jacobian = np.eye(w.size)
        jacobian[:size, :size] -= share
        observed = jacobian.T @ observed @ jacobian
        observed[:size, :size] += inner * (np.diag(share) - np.outer(share, share))
        return jacobian.T @ gradient, observed, jacobian.T @ expected @ jacobian


@dataclass(frozen=True)
class Mode:
    """Posterior mode given τ, with the Laplace approximation of the evidence.

    Parameters
    ----------
    tau : float
        Scale of the random walk.
    point : numpy.ndarray
        Mode (u, a) in standard normal coordinates.
    log_evidence : float
        log p(counts | τ), without the multinomial coefficient.
    """

    tau: float
    point: np.ndarray
    log_evidence: float


def find_mode(model: Likelihood, tau: float, start: np.ndarray | None = None) -> Mode:
    """Posterior mode of (u, a) given τ, by Newton's method with backtracking.

    Parameters
    ----------
    model : Likelihood
        Counts and table.
    tau : float
        Scale of the random walk (> 0).
    start : numpy.ndarray, optional
        Where to start; the prior mean by default.

    Returns
    -------
    Mode

    Raises
    ------
    DPBayesError
        If no mode is reached (numbers out of range).
    """
    law = model.law
    transform = law.scale(tau)[:, None] * law.transform
    point = np.zeros(law.rank + law.atoms) if start is None else start.copy()

    def objective(v: np.ndarray) -> float:
        return model.value(*law.at(tau, v)) - 0.5 * float(v @ v)

    value = objective(point)
    for _ in range(NEWTON_STEPS):
        gradient, observed, expected = model.derivatives(*law.at(tau, point))
        slope = transform.T @ gradient - point
        factor, newton = _factor(transform, observed, expected)
        step = linalg.cho_solve((factor, True), slope)
        gain = 0.5 * float(slope @ step)
        if newton and gain < NEWTON_TOLERANCE:
            half_log_det = float(np.log(np.diag(factor)).sum())
            return Mode(tau, point, value - half_log_det)
        point, value = _line_search(objective, point, value, step, gain)
    raise DPBayesError(
        f"no mode found for a scale of {tau:g} in {NEWTON_STEPS} Newton steps; "
        "check the bounds and the noise of the release"
    )


def _factor(
    transform: np.ndarray, observed: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Cholesky factor of the negative Hessian, of its expectation away from a maximum."""
    identity = np.eye(transform.shape[1])
    try:
        return linalg.cholesky(transform.T @ observed @ transform + identity, lower=True), True
    except linalg.LinAlgError:
        return linalg.cholesky(transform.T @ expected @ transform + identity, lower=True), False


def _line_search(objective, point, value, step, gain):
    """Halve the step until the objective rises by a fair part of what Newton promises."""
    length = 1.0
    while length > 1e-10:
        trial = point + length * step
        trial_value = objective(trial)
        # Rounding of the log likelihood hides gains below its last digits.
        if trial_value >= value + 1e-4 * length * gain - 1e-13 * abs(value):
            return trial, trial_value
        length *= 0.5
    raise DPBayesError("the log posterior does not rise along Newton's direction")


@dataclass(frozen=True)
class ScaleFit:
    """Laplace approximation over a grid of log τ.

    Parameters
    ----------
    log_evidence : float
        log p(counts), the scale integrated out.
    mode : Mode
        Mode given the τ on the grid with the highest posterior density.
    mean, sd : float
        Posterior mean and standard deviation of log τ.
    """

    log_evidence: float
    mode: Mode
    mean: float
    sd: float


def log_prior_of_scale(log_tau: float) -> float:
    """Log prior density of log τ."""
    normaliser = TAU_SHAPE * np.log(TAU_RATE) - special.gammaln(TAU_SHAPE)
    return float(normaliser + TAU_SHAPE * log_tau - TAU_RATE * np.exp(log_tau))


def fit_scale(model: Likelihood) -> ScaleFit:
    """Integrate the scale out by a grid of Laplace approximations.

    Parameters
    ----------
    model : Likelihood
        Counts and table.

    Returns
    -------
    ScaleFit

    Notes
    -----
    The grid in log τ has steps of 0.5 and ends where the density has fallen by 9 nats or
    at 4 from the prior mean. Where the posterior is narrow the steps are halved.
    """
    found: dict[float, Mode] = {}

    def height(t: float) -> float:
        return log_prior_of_scale(t) + found[t].log_evidence

    def visit(t: float) -> float:
        if t not in found:
            near = min(found, key=lambda s: abs(s - t)) if found else None
            found[t] = find_mode(model, np.exp(t), None if near is None else found[near].point)
        return height(t)

    middle = float(np.log(TAU_SHAPE / TAU_RATE))
    visit(middle)
    for direction in (1.0, -1.0):
        t = middle
        while abs(t - middle) < GRID_REACH:
            t += direction * GRID_STEP
            if visit(t) < max(map(height, found)) - GRID_DROP:
                break
    step = GRID_STEP
    mean, sd, total = _moments(found, height, step)
    while sd < 1.2 * step and step > 0.05:
        inside = [t for t in found if height(t) > max(map(height, found)) - GRID_DROP]
        step *= 0.5
        for t in inside:
            visit(t - step)
            visit(t + step)
        mean, sd, total = _moments(found, height, step)
    best = max(found, key=height)
    return ScaleFit(total, found[best], mean, sd)


def _moments(found, height, step):
    """Posterior mean and sd of log τ and the log evidence, by the trapezoid rule."""
    t = np.array(sorted(found))
    logs = np.array([height(s) for s in t])
    share = special.softmax(logs)
    mean = float(share @ t)
    sd = float(np.sqrt(share @ (t - mean) ** 2))
    return mean, sd, float(special.logsumexp(logs) + np.log(step))
