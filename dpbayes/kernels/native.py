"""Kernels called through one address, so that what calls them compiles without them.

numba links the whole code of a callee into every function that calls it, and optimises it again
each time: seconds for a large kernel, in every model. A `NativeKernel` is compiled once (and kept
on disk) as a C function; callers hold its name only, which the linker resolves. Their code can be
kept on disk too, since it holds no address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["NativeKernel"]


class NativeKernel:
    """A function of numbers and arrays that compiled code calls by name.

    Parameters
    ----------
    function : callable
        Python function that numba can compile.
    signature : numba signature
        Types of result and arguments; arguments given are cast to them.

    Attributes
    ----------
    call : callable
        What compiled code calls, with positional arguments; `prepare` must have run before.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.symbol = f"{function.__module__}.{function.__name__}".replace(".", "_")
        self._function, self._signature = function, signature
        self._compiled: Any = None
        self.call = _by_name(self.symbol, signature)

    def prepare(self) -> None:
        """Compile the function, or fetch it from disk, and tell the linker where it is."""
        if self._compiled is None:
            self._compiled = cfunc(self._signature, cache=True)(self._function)
            llvm.add_symbol(self.symbol, self._compiled.address)


def _by_name(symbol: str, signature: Any) -> Any:
    """Build the call of an external symbol."""

    @intrinsic
    def call(typingctx, *given):
        # numba hands the arguments over one by one while typing, as one tuple while lowering
        packed = isinstance(given[0], types.BaseTuple)
        types_of = tuple(given[0]) if packed else given

        def codegen(context, builder, inner, values):
            parts = cgutils.unpack_tuple(builder, values[0])
            parts = [
                context.cast(builder, part, have, want)
                for part, have, want in zip(parts, inner.args[0].types, signature.args, strict=True)
            ]
            function = ir.FunctionType(
                context.get_value_type(signature.return_type),
                [context.get_value_type(x) for x in signature.args],
            )
            return builder.call(
                cgutils.get_or_insert_function(builder.module, function, symbol), parts
            )

        return signature.return_type(types.StarArgTuple(types_of)), codegen

    return call
