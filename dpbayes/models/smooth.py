"""Smooth prior on a distribution with atoms: mode, evidence and whitening, as array maths.

P is a mixture of K cells (or K points) with weights softmax(θ) and of m atoms whose masses
relative to the cells are exp(η):

    θ = τ B u,  u ~ N(0, I);   η = mean + sd a,  a ~ N(0, I);   log τ ~ N(mean, sd²).

θ is a random walk of order 1 or 2 on the log weights, scaled so that its average variance is
τ² whatever K and the units (Sørbye & Rue 2014). Given P the counts of the released cells are
multinomial with probabilities A w.

References
----------
Sørbye, S. H. & Rue, H. (2014), Scaling intrinsic Gaussian Markov random field priors in
spatial modelling, Spatial Statistics 8.
Papaspiliopoulos, O., Roberts, G. O. & Sköld, M. (2007), A general framework for the
parametrization of hierarchical models, Statistical Science 22, section 4.
Rue, H., Martino, S. & Chopin, N. (2009), Approximate Bayesian inference for latent Gaussian
models, JRSS B 71, section 3 (Laplace approximation on a grid of the scale).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, special

from dpbayes.errors import DPBayesError, ParameterError

__all__ = ["Likelihood", "Mode", "SmoothLaw", "Whitening", "find_mode", "fit_scale", "whiten"]

LOG_TAU_MEAN, LOG_TAU_SD = float(np.log(2.0)), 0.75
ATOM_MEAN, ATOM_SD = -2.5, 1.5
SLOPE_SHARE = 0.5  # of the average variance of θ under order 2
NEWTON_STEPS = 200
NEWTON_TOLERANCE = 1e-9  # nats left to gain
GRID_STEP = 0.5  # in log τ
GRID_DROP = 9.0  # nats below the top at which the grid ends
GRID_REACH = 5.0  # prior standard deviations of log τ
INFORMED = 4.0  # information over prior precision from which a direction counts as informed
MOST_INFORMED = 6


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

    def weights(self, theta: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Weights of cells and atoms, (..., K + m), from log weights and log relative masses."""
        smooth = special.log_softmax(theta, axis=-1)
        return special.softmax(np.concatenate([smooth, eta], axis=-1), axis=-1)

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Prior draws of the weights, (draws, K + m), and of log τ."""
        log_tau = rng.normal(LOG_TAU_MEAN, LOG_TAU_SD, draws)
        theta = np.exp(log_tau)[:, None] * (rng.normal(size=(draws, self.rank)) @ self.root.T)
        eta = rng.normal(ATOM_MEAN, ATOM_SD, (draws, self.atoms))
        return self.weights(theta, eta), log_tau


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
    transform = linalg.block_diag(tau * law.root, ATOM_SD * np.eye(law.atoms))
    offset = np.r_[np.zeros(law.cells), np.full(law.atoms, ATOM_MEAN)]
    point = np.zeros(law.rank + law.atoms) if start is None else start.copy()

    def objective(v: np.ndarray) -> float:
        both = offset + transform @ v
        return model.value(both[: law.cells], both[law.cells :]) - 0.5 * float(v @ v)

    value = objective(point)
    for _ in range(NEWTON_STEPS):
        both = offset + transform @ point
        gradient, observed, expected = model.derivatives(both[: law.cells], both[law.cells :])
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
    at 5 prior standard deviations. Where the posterior is narrow the steps are halved.
    """
    found: dict[float, Mode] = {}

    def height(t: float) -> float:
        prior = -0.5 * ((t - LOG_TAU_MEAN) / LOG_TAU_SD) ** 2 - np.log(LOG_TAU_SD)
        return prior - 0.5 * np.log(2 * np.pi) + found[t].log_evidence

    def visit(t: float) -> float:
        if t not in found:
            near = min(found, key=lambda s: abs(s - t)) if found else None
            found[t] = find_mode(model, np.exp(t), None if near is None else found[near].point)
        return height(t)

    reach = GRID_REACH * LOG_TAU_SD
    visit(LOG_TAU_MEAN)
    for direction in (1.0, -1.0):
        t = LOG_TAU_MEAN
        while abs(t - LOG_TAU_MEAN) < reach:
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


@dataclass(frozen=True)
class Whitening:
    """Coordinates in which the posterior is close to standard normal for every τ.

    θ = loose α + tight β, where the prior of α and β is N(0, τ²) and the information of the
    release about (α, β) is diagonal at the mode. Directions α are little informed:
    α_i = s_i (ξ_i + α̂_i/ŝ_i) with s_i = (λ_i + 1/τ²)^(-1/2), a partial non-centring that makes
    ξ_i the innovation where the release says nothing.

    Directions β are well informed, but through functionals of P that are not linear in θ: a
    given mean of P is a curved surface in θ. So β is centred, given everything before it, at
    the minimum of |target - functionals w|² + |β|²/τ², and scaled by the curvature there
    (Gauss-Newton), which straightens that surface.

    Parameters
    ----------
    loose, tight : numpy.ndarray, shapes (K, K-1-r) and (K, r)
        Map α and β to θ.
    information, mode, spread : numpy.ndarray, shape (K-1-r,)
        λ, α̂ and ŝ.
    tight_mode : numpy.ndarray, shape (r,)
        Mode of β.
    functionals : numpy.ndarray, shape (r, K + m)
        Functionals of the weights that the release determines, in units of their error.
    target : numpy.ndarray, shape (r,)
        Their released values.
    center : numpy.ndarray, shape (m,)
        Mode of η.
    factor : numpy.ndarray, shape (m, m)
        Lower triangle L, η = center + L ξ.
    log_tau_mean, log_tau_sd : float
        Approximate posterior of log τ.
    """

    loose: np.ndarray
    tight: np.ndarray
    information: np.ndarray
    mode: np.ndarray
    spread: np.ndarray
    tight_mode: np.ndarray
    functionals: np.ndarray
    target: np.ndarray
    center: np.ndarray
    factor: np.ndarray
    log_tau_mean: float
    log_tau_sd: float


def whiten(model: Likelihood, fit: ScaleFit) -> Whitening:
    """Coordinates from the mode and the expected information there.

    Parameters
    ----------
    model : Likelihood
        Counts and table.
    fit : ScaleFit
        Where the posterior lies.

    Returns
    -------
    Whitening
    """
    law, tau, point = model.law, fit.mode.tau, fit.mode.point
    size, u = law.cells, point[: law.rank]
    center = ATOM_MEAN + ATOM_SD * point[law.rank :]
    theta = tau * law.root @ u
    _, _, expected = model.derivatives(theta, center)
    value, rotation = np.linalg.eigh(law.root.T @ expected[:size, :size] @ law.root)
    information = np.maximum(value, 0.0)  # ascending
    loadings = law.root @ rotation
    mode = tau * rotation.T @ u
    precision = information + tau**-2
    cross = loadings.T @ expected[:size, size:]
    schur = expected[size:, size:] + np.eye(law.atoms) / ATOM_SD**2
    schur -= cross.T @ (cross / precision[:, None])
    informed = min(int(np.sum(information * tau**2 > INFORMED)), MOST_INFORMED)
    split = law.rank - informed
    functionals, target = _functionals(model, theta, center, loadings[:, split:])
    return Whitening(
        loose=loadings[:, :split],
        tight=np.ascontiguousarray(loadings[:, split:]),
        information=information[:split],
        mode=mode[:split],
        spread=precision[:split] ** -0.5,
        tight_mode=mode[split:],
        functionals=functionals,
        target=target,
        center=center,
        factor=np.linalg.cholesky(np.linalg.inv(schur)) if law.atoms else schur,
        log_tau_mean=fit.mean,
        log_tau_sd=fit.sd,
    )


def _functionals(
    model: Likelihood, theta: np.ndarray, eta: np.ndarray, tight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Functionals of the weights that move with the well-informed directions at the mode.

    In the weights the log likelihood is close to -|R w - c/√(n p)|²/2 with
    R = diag(√(n/p)) A; the directions pick out orthogonal rows of it.
    """
    w = model.law.weights(theta, eta)
    total, p = model.counts.sum(), model.table @ w
    root = np.sqrt(total / p)[:, None] * model.table
    share = special.softmax(theta)
    moved = root[:, : share.size] @ (w[: share.size, None] * (tight - share @ tight))
    moved /= np.linalg.norm(moved, axis=0)
    return moved.T @ root, moved.T @ (model.counts / np.sqrt(total * p))
