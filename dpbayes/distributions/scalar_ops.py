"""Registration of compiled scalar functions with PyTensor's numba backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key

__all__ = ["register"]

#: Raise when a kernel changes, or PyTensor's disk cache returns code that calls the old one.
CACHE_VERSION = 1


def register(
    op_type: type,
    build: Callable[[Any], Callable[..., Any]],
    key: Callable[[Any], str],
    inputs: int,
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
    inputs : int
        Number of inputs.
    """

    @register_scalar_funcify(op_type)
    def funcify(op: Any, node: Any, **kwargs: Any) -> tuple[Any, str]:
        kernel = build(op)
        if inputs == 2:

            @numba_basic.numba_njit
            def compiled(x, y):
                return kernel(float(x), float(y))

        else:

            @numba_basic.numba_njit
            def compiled(x, y, z):
                return kernel(float(x), float(y), float(z))

        return compiled, scalar_op_cache_key(op, cache_version=CACHE_VERSION, key=key(op))
