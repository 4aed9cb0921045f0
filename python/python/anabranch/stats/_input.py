"""Arguments of statistics as arrays that the extension module reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import StatsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def numpy() -> Any:
    """NumPy, which the package does not depend on."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError("anabranch.stats needs NumPy; install it with: pip install 'anabranch[numpy]'") from error
    return numpy


def _numbers(name: str, values: ArrayLike) -> Any:
    np = numpy()
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise StatsError(f"{name} is not an array: {error}") from error
    if found.dtype.kind not in "iuf":
        raise StatsError(f"{name} has the dtype {found.dtype}; give real numbers")
    return np.ascontiguousarray(found, np.float64) if found.ndim else found.astype(np.float64)


def series(name: str, values: ArrayLike) -> NDArray[Any]:
    """Shape (samples,), float64: the array itself if it is that already."""
    found: NDArray[Any] = _numbers(name, values)
    if found.ndim != 1:
        raise StatsError(f"{name} has the shape {found.shape}; it must have one dimension, such as array[:, 0]")
    return found


def rows(name: str, values: ArrayLike) -> NDArray[Any]:
    """Shape (rows, paths), float64: the array itself if it is that already."""
    found: NDArray[Any] = _numbers(name, values)
    if found.ndim != 2:
        raise StatsError(f"{name} has the shape {found.shape}; it must have two dimensions, (rows, paths)")
    return found


def points(name: str, values: ArrayLike) -> NDArray[Any]:
    """Numbers of any shape, contiguous."""
    found: NDArray[Any] = _numbers(name, values)
    return found


def levels(name: str, values: ArrayLike) -> NDArray[Any]:
    """Probabilities of any shape."""
    found = points(name, values)
    if not ((found >= 0) & (found <= 1)).all():
        raise StatsError(f"{name}: {values!r} is not within 0 to 1")
    return found


def probability(name: str, value: float) -> float:
    """A number above 0 and below 1."""
    if not 0 < value < 1:
        raise StatsError(f"{name} is {value!r}; it must be above 0 and below 1, such as 0.95")
    return float(value)


def flags(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Booleans of this shape as bytes."""
    np = numpy()
    found = np.asarray(values)
    if found.dtype.kind != "b" or found.shape != shape:
        raise StatsError(f"{name} has the dtype {found.dtype} and the shape {found.shape}; it must have booleans and {shape}")
    result: NDArray[Any] = np.ascontiguousarray(found).view(np.uint8)
    return result


def answer(like: NDArray[Any]) -> NDArray[Any]:
    """Room for as many answers as there are points."""
    result: NDArray[Any] = numpy().empty(max(1, math.prod(like.shape)) if not like.ndim else like.shape)
    return result


def shaped(answers: NDArray[Any], like: NDArray[Any]) -> Any:
    """One number for one point, and an array for several."""
    return answers if like.ndim else float(answers[0])
