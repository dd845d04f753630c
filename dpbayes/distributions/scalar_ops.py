"""Registration of compiled scalar functions with PyTensor's numba backend."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key

from dpbayes import kernels

__all__ = ["CACHE_VERSION", "register"]


def _fingerprint() -> str:
    """Hash of the kernels' source text."""
    digest = hashlib.sha256()
    for path in sorted(Path(kernels.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


#: PyTensor's disk cache must not return code that calls kernels of another version.
CACHE_VERSION = _fingerprint()


def register(
    op_type: type,
    build: Callable[[Any], Callable[..., Any]],
    key: Callable[[Any], str],
    inputs: int | None = None,
) -> None:
    """Compile a `ScalarOp` through a function of its static properties.

    Parameters
    ----------
    op_type : type
        Subclass of ScalarOp.
    build : callable
        Takes the op, returns a numba function of `inputs` floats.
    key : callable
        Takes the op, returns text that tells apart the functions that `build` makes.
    inputs : int, optional
        Number of inputs; that of the op by default.
    """

    @register_scalar_funcify(op_type)
    def funcify(op: Any, node: Any, **kwargs: Any) -> tuple[Any, str]:
        compiled = _of_floats(build(op), op.nin if inputs is None else inputs)
        return compiled, scalar_op_cache_key(op, cache_version=CACHE_VERSION, key=key(op))


def _of_floats(kernel: Any, inputs: int) -> Any:
    """Kernel whose arguments may be of any number type: one signature to compile."""

    def one(a):
        return kernel(float(a))

    def two(a, b):
        return kernel(float(a), float(b))

    def four(a, b, c, d):
        return kernel(float(a), float(b), float(c), float(d))

    def five(a, b, c, d, e):
        return kernel(float(a), float(b), float(c), float(d), float(e))

    # PyTensor takes the names, and numba compiles no star-arguments here.
    return numba_basic.numba_njit({1: one, 2: two, 4: four, 5: five}[inputs])
