"""Many tables of sums at a time, one after the other in one array: arrays only.

Table i has the entries ``values[offsets[i]:offsets[i + 1]]``, for sums from ``first[i]`` on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dpbayes.kernels.leaves import split_draws

__all__ = ["CUT", "compact", "convolve_direct", "pack", "reweigh", "split_nodes", "unpack"]

#: Entries below this share of the largest are cut off the ends of a table.
CUT = 1e-19


@njit(cache=True, nogil=True)
def _settle(out, size, start, stop):
    """Scale a table to a largest entry of 1 and find the part worth keeping; its old peak."""
    peak = 0.0
    for i in range(size):
        peak = max(peak, out[i])
    if not peak > 0.0:
        out[0] = 0.0
        start[0], stop[0] = 0, 1
        return 0.0
    low, high = size, 0
    for i in range(size):
        out[i] /= peak
        if out[i] > CUT:
            low, high = min(low, i), i + 1
    start[0], stop[0] = low, high
    return peak


@njit(cache=True, nogil=True)
def compact(values, offsets, start, stop):
    """Copy the parts start..stop of all tables into one array; returns it and its offsets."""
    size = offsets.size - 1
    out_offsets = np.zeros(size + 1, dtype=np.int64)
    for i in range(size):
        out_offsets[i + 1] = out_offsets[i] + stop[i] - start[i]
    out = np.empty(out_offsets[size])
    for i in range(size):
        a = offsets[i]
        out[out_offsets[i] : out_offsets[i + 1]] = values[a + start[i] : a + stop[i]]
    return out, out_offsets


@njit(cache=True, nogil=True)
def reweigh(values, offsets, first, slope, log_factor, out, start, stop, moments):
    """Multiply tables by exp(slope s + log_factor).

    Parameters
    ----------
    values, offsets, first
        Tables.
    slope : ndarray
        Slope of each table.
    log_factor : ndarray
        One factor for each entry, or an empty array.
    out : ndarray
        Receives the entries, scaled so that the largest of each table is 1.
    start, stop : ndarray of int
        Receive the part of each table that is worth keeping.
    moments : ndarray, shape (3, tables)
        Receives the log of the factor taken out, mean and variance.
    """
    for i in range(first.size):
        a, b = offsets[i], offsets[i + 1]
        top = -np.inf
        for k in range(a, b):
            out[k] = np.log(values[k]) if values[k] > 0.0 else -np.inf
            out[k] += slope[i] * (k - a)
            if log_factor.size:
                out[k] += log_factor[k]
            top = max(top, out[k])
        moments[0, i] = top + slope[i] * first[i]
        for k in range(a, b):
            out[k] = np.exp(out[k] - top) if top > -np.inf else 0.0
        _settle(out[a:b], b - a, start[i : i + 1], stop[i : i + 1])
        total, mean, spread = 0.0, 0.0, 0.0
        for k in range(a, b):
            total += out[k]
            mean += out[k] * (k - a)
        mean = mean / total if total > 0.0 else 0.0
        for k in range(a, b):
            spread += out[k] * (k - a - mean) ** 2
        moments[1, i] = first[i] + mean
        moments[2, i] = spread / total if total > 0.0 else 0.0


@njit(cache=True, nogil=True)
def pack(values, offsets, nodes, out):
    """Write one table per row, padded with zeros."""
    for row in range(nodes.size):
        a, b = offsets[nodes[row]], offsets[nodes[row] + 1]
        out[row, : b - a] = values[a:b]
        out[row, b - a :] = 0.0


@njit(cache=True, nogil=True)
def unpack(rows, nodes, raw, raw_offsets, start, stop, peak):
    """Store rows of convolutions; what rounding made negative is set to 0."""
    for row in range(nodes.size):
        node = nodes[row]
        a, size = raw_offsets[node], raw_offsets[node + 1] - raw_offsets[node]
        for i in range(size):
            raw[a + i] = max(rows[row, i], 0.0)
        peak[node] = _settle(raw[a : a + size], size, start[node : node + 1], stop[node : node + 1])


@njit(cache=True, nogil=True)
def _convolve(a, b, out):
    out[:] = 0.0
    for i in range(a.size):
        x = a[i]
        for k in range(b.size):
            out[i + k] += x * b[k]


@njit(cache=True, nogil=True)
def convolve_direct(values, offsets, left, right, nodes, raw, raw_offsets, start, stop, peak):
    """Merge pairs of tables by direct convolution; a node without a right part is copied."""
    for k in range(nodes.size):
        node = nodes[k]
        out = raw[raw_offsets[node] : raw_offsets[node + 1]]
        a = values[offsets[left[node]] : offsets[left[node] + 1]]
        if right[node] < 0:
            out[:] = a
            start[node], stop[node], peak[node] = 0, a.size, 1.0
            continue
        b = values[offsets[right[node]] : offsets[right[node] + 1]]
        if a.size < b.size:
            _convolve(a, b, out)
        else:
            _convolve(b, a, out)
        peak[node] = _settle(out, out.size, start[node : node + 1], stop[node : node + 1])


@njit(cache=True, nogil=True)
def split_nodes(
    values, offsets, first, mean, variance, left, right,
    merged, merged_offsets, merged_first, peak, nodes, totals, uniforms, out,
):  # fmt: skip
    """Split the sums of merged nodes among their two parts.

    Parameters
    ----------
    values, offsets, first, mean, variance
        Tables of the parts, and their moments.
    left, right : ndarray of int
        Parts of each node; a node without a right part passes its sums on.
    merged, merged_offsets, merged_first
        Tables of the nodes.
    peak : ndarray
        Largest entry of each convolution before it was scaled.
    nodes : ndarray of int
        Nodes to split.
    totals : ndarray of int, shape (nodes, draws)
        Sums of all nodes.
    uniforms : ndarray, shape (nodes, draws)
        One uniform variate per draw.
    out : ndarray of int, shape (parts, draws)
        Receives the sums of the parts.

    Returns
    -------
    int
        A node that has a sum without mass, -1 if there is none.
    """
    for node in nodes:
        a, b = left[node], right[node]
        if b < 0:
            out[a] = totals[node]
            continue
        both = variance[a] + variance[b]
        slope = variance[a] / both if both > 0.0 else 0.5
        failed = split_draws(
            values[offsets[a] : offsets[a + 1]], first[a],
            values[offsets[b] : offsets[b + 1]], first[b],
            slope, mean[a] - slope * (mean[a] + mean[b]), totals[node], uniforms[node], out[a],
            merged[merged_offsets[node] : merged_offsets[node + 1]], merged_first[node],
            peak[node],
        )  # fmt: skip
        if failed >= 0:
            return node
        for d in range(out.shape[1]):
            out[b, d] = totals[node, d] - out[a, d]
    return -1
