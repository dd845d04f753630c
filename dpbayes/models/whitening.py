"""Coordinates in which the posterior of a smooth distribution is close to standard normal.

References
----------
Papaspiliopoulos, O., Roberts, G. O. & Sköld, M. (2007), A general framework for the
parametrization of hierarchical models, Statistical Science 22, section 4.
Cui, T., Martin, J., Marzouk, Y., Solonen, A. & Spantini, A. (2014), Likelihood-informed
dimension reduction for nonlinear inverse problems, Inverse Problems 30, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbayes.models.smooth import TAU_RATE, TAU_SHAPE, Likelihood, ScaleFit, find_mode

__all__ = ["Whitening", "whiten"]

INFORMED = 4.0  # information over prior precision from which a direction counts as informed
MOST_INFORMED = 6
NODE_STEP = 0.4  # in log τ
NODE_REACH = 4.0  # posterior standard deviations of log τ on either side
SMALLEST_SD, LEAST_REACH = 0.05, 0.15  # of log τ


@dataclass(frozen=True)
class Whitening:
    """Coordinates in which the posterior is close to standard normal for every τ.

    The prior of u = (u_z, u_a), standard normal whatever τ, is rotated to (α, β) so that the
    information of the release about them is diagonal at the mode, and (θ/τ, η) = level +
    loose' α + tight' β.

    Directions α are little informed: α_i = centre_i(τ) + spread_i(τ) ξ_i with the mode and the
    curvature given τ, tabulated over log τ, which makes ξ_i the innovation where the release
    says nothing.

    Directions β are well informed, but through functionals of P that are not linear in θ: a
    given mean of P is a curved surface in θ. Their coordinates ζ straighten it (see
    `dpbayes.kernels.straighten`).

    Parameters
    ----------
    cells : int
        Number K of cells.
    level : numpy.ndarray, shape (K + m,)
        Prior mean of (θ/τ, η).
    loose, tight : numpy.ndarray, shapes (K-1+m-r, K + m) and (r, K + m)
        Map α and β to (θ/τ, η).
    functionals : numpy.ndarray, shape (r, K + m)
        Functionals of the weights that the release determines, in units of their error.
    target : numpy.ndarray, shape (r,)
        Their released values.
    nodes : numpy.ndarray
        log τ, equally spaced.
    centre, log_spread : numpy.ndarray, shape (nodes, K-1+m)
        Modes of (α, β), and log standard deviations of α given the other directions of α.
    log_tau_mean, log_tau_sd : float
        Approximate posterior of log τ.
    """

    cells: int
    level: np.ndarray
    loose: np.ndarray
    tight: np.ndarray
    functionals: np.ndarray
    target: np.ndarray
    nodes: np.ndarray
    centre: np.ndarray
    log_spread: np.ndarray
    log_tau_mean: float
    log_tau_sd: float

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.level.size

    @property
    def frame(self) -> tuple:
        """Constants of the kernels (see `dpbayes.kernels.smooth`)."""
        step = self.nodes[1] - self.nodes[0]
        scale = np.array([self.log_tau_mean, self.log_tau_sd, self.nodes[0], step])
        normaliser = TAU_SHAPE * np.log(TAU_RATE) - special.gammaln(TAU_SHAPE)
        normaliser += np.log(self.log_tau_sd) - 0.5 * (self.size - 1) * np.log(2.0 * np.pi)
        law = np.array([TAU_SHAPE, TAU_RATE, normaliser])
        grid = np.stack(
            [self.centre, _slopes(self.centre), self.log_spread, _slopes(self.log_spread)]
        )
        parts = (scale, law, self.level, self.loose, self.tight, self.functionals, self.target)
        return self.cells, *(np.ascontiguousarray(part) for part in (*parts, grid))


def _slopes(values: np.ndarray) -> np.ndarray:
    """Take differences at the nodes; none at the ends, beyond which nothing changes."""
    out = np.zeros_like(values)
    out[1:-1] = 0.5 * (values[2:] - values[:-2])
    return out


def whiten(model: Likelihood, fit: ScaleFit) -> Whitening:
    """Coordinates from the modes given τ and the expected information there.

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
    value, rotation = np.linalg.eigh(_information(model, tau, point, np.eye(law.rank + law.atoms)))
    informed = int(np.clip(np.sum(value > INFORMED), 1, MOST_INFORMED))  # ascending
    split = value.size - informed
    directions = law.transform @ rotation
    functionals, target = _functionals(model, tau, point, directions[:, split:])
    nodes, points = _modes(model, fit)
    centre, log_spread = np.empty((2, nodes.size, value.size))
    for i, (node, point) in enumerate(zip(nodes, points, strict=True)):
        precision = np.eye(value.size) + _information(model, np.exp(node), point, rotation)
        centre[i] = rotation.T @ point
        # Given the well informed directions at their optimum for each α.
        known = precision[split:, :split]
        given = precision[:split, :split]
        given = given - known.T @ np.linalg.solve(precision[split:, split:], known)
        log_spread[i, :split] = -0.5 * np.log(np.diag(given))
        log_spread[i, split:] = 0.0
    return Whitening(
        cells=law.cells,
        level=law.level,
        loose=directions[:, :split].T,
        tight=directions[:, split:].T,
        functionals=functionals,
        target=target,
        nodes=nodes,
        centre=centre,
        log_spread=log_spread,
        log_tau_mean=fit.mean,
        log_tau_sd=max(fit.sd, SMALLEST_SD),
    )


def _modes(model: Likelihood, fit: ScaleFit) -> tuple[np.ndarray, list[np.ndarray]]:
    """Nodes in log τ and the modes given them, found from the middle outwards."""
    side = int(np.ceil(NODE_REACH * max(fit.sd, LEAST_REACH) / NODE_STEP))
    nodes = np.log(fit.mode.tau) + NODE_STEP * np.arange(-side, side + 1)
    found = {side: fit.mode.point}
    for outward in (1, -1):
        for i in range(1, side + 1):
            at = side + outward * i
            found[at] = find_mode(model, float(np.exp(nodes[at])), found[at - outward]).point
    return nodes, [found[i] for i in range(nodes.size)]


def _information(
    model: Likelihood, tau: float, point: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """Compute the expected information at a point (u, a) about coordinates along directions."""
    slope = model.law.scale(tau)[:, None] * (model.law.transform @ directions)
    return slope.T @ model.derivatives(*model.law.at(tau, point))[2] @ slope


def _functionals(
    model: Likelihood, tau: float, point: np.ndarray, tight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Functionals of the weights that move with the well-informed directions at the mode.

    In the weights the log likelihood is close to -|R w - c/√(n p)|²/2 with
    R = diag(√(n/p)) A; the directions pick out orthogonal rows of it.
    """
    cells = model.law.cells
    theta, eta = model.law.at(tau, point)
    w = model.law.weights(theta, eta)
    total, p = model.counts.sum(), model.table @ w
    root = np.sqrt(total / p)[:, None] * model.table
    change = model.law.scale(tau)[:, None] * tight
    change = (
        change
        - w[cells:] @ change[cells:]
        - np.outer(np.arange(w.size) < cells, special.softmax(theta) @ change[:cells])
    )
    moved = root @ (w[:, None] * change)
    moved /= np.linalg.norm(moved, axis=0)
    return moved.T @ root, moved.T @ (model.counts / np.sqrt(total * p))
