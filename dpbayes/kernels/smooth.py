"""Log posterior of a smooth distribution behind perturbed records: arrays only."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["coordinates", "log_posterior"]


@njit(cache=True, nogil=True)
def coordinates(x, frame):
    """Scale, log-weight coordinates and atom coordinates from whitened ones.

    Given τ the posterior of z is nearly normal with precision λ_i + τ⁻² along the i-th
    column of V, so that the whitened coordinates are nearly standard normal for every τ:
    well-informed directions are centred, the others scale with τ.

    Parameters
    ----------
    x : ndarray, shape (1 + r + m,)
        Standardised log τ, directions of z, atoms.
    frame : tuple
        log τ mean and sd; V; information λ; mode times its precision; z and a at the mode;
        regression of a on z; factor of the covariance of a given z.

    Returns
    -------
    log_tau : float
    precision : ndarray, shape (r,)
        λ_i + τ⁻².
    z, a : ndarray
    """
    log_mean, log_sd, axes, information, pull, z_mode, a_mode, regression, factor = frame
    rank = information.size
    log_tau = log_mean + log_sd * x[0]
    precision = information + math.exp(-2.0 * log_tau)
    along = pull / precision + x[1 : 1 + rank] / np.sqrt(precision)
    z = axes @ along
    a = a_mode + regression @ (z - z_mode) + factor @ x[1 + rank :]
    return log_tau, precision, z, a


@njit(cache=True, nogil=True)
def log_posterior(x, frame, root, table, counts, scale_law, atom_law):
    """Log posterior in whitened coordinates, up to a constant, and its gradient.

    The log weights of the cells are θ = root z with z ~ N(0, τ² I); atoms have masses
    exp(mean + sd a) relative to the cells, a ~ N(0, I); log τ is normal.

    Parameters
    ----------
    x, frame
        As in `coordinates`.
    root : ndarray, shape (cells, r)
        Maps z to log weights.
    table : ndarray, shape (J, cells + m)
        Probability of each released cell given each basis element.
    counts : ndarray, shape (J,)
        Records by released cell.
    scale_law, atom_law : tuple of float
        Mean and sd of log τ, and of the log relative masses of the atoms.
    """
    log_sd, axes, pull, regression, factor = frame[1], frame[2], frame[4], frame[7], frame[8]
    cells, rank = root.shape
    atoms = table.shape[1] - cells
    log_tau, precision, z, a = coordinates(x, frame)
    theta = root @ z
    weights = np.empty(cells + atoms)
    top = theta.max()
    total = 0.0
    for k in range(cells):
        weights[k] = math.exp(theta[k] - top)
        total += weights[k]
    odds = 0.0
    for i in range(atoms):
        weights[cells + i] = math.exp(atom_law[0] + atom_law[1] * a[i])
        odds += weights[cells + i]
    rest = 1.0 / (1.0 + odds)
    for k in range(cells):
        weights[k] *= rest / total
    for i in range(atoms):
        weights[cells + i] *= rest
    density = table @ weights
    value, records = 0.0, 0.0
    ratio = np.empty(counts.size)
    for j in range(counts.size):
        if not density[j] > 0.0:
            return -np.inf, np.zeros(x.size)
        value += counts[j] * math.log(density[j])
        ratio[j] = counts[j] / density[j]
        records += counts[j]
    share = weights * (ratio @ table)  # expected records of each basis element
    inside = 0.0
    for k in range(cells):
        inside += share[k]
    slope = np.empty(cells)
    for k in range(cells):
        slope[k] = share[k] - inside * weights[k] / rest
    # Prior, and gradient in z and a.
    tau2 = math.exp(-2.0 * log_tau)
    square = 0.0
    for i in range(rank):
        square += z[i] * z[i]
    standard = (log_tau - scale_law[0]) / scale_law[1]
    value -= rank * log_tau + 0.5 * square * tau2 + 0.5 * standard * standard
    by_a = np.empty(atoms)
    for i in range(atoms):
        value -= 0.5 * a[i] * a[i]
        by_a[i] = atom_law[1] * (share[cells + i] - records * weights[cells + i]) - a[i]
    by_z = slope @ root - tau2 * z + by_a @ regression
    # Chain rule to the whitened coordinates, with the Jacobian of the scales.
    gradient = np.empty(x.size)
    by_axis = by_z @ axes
    by_scale = -rank + square * tau2 - standard / scale_law[1]
    for i in range(rank):
        d = precision[i]
        value -= 0.5 * math.log(d)
        gradient[1 + i] = by_axis[i] / math.sqrt(d)
        moved = -pull[i] / (d * d) - 0.5 * x[1 + i] / (d * math.sqrt(d))
        by_scale += (by_axis[i] * moved - 0.5 / d) * (-2.0 * tau2)
    gradient[0] = log_sd * by_scale
    gradient[1 + rank :] = by_a @ factor
    return value, gradient
