"""NumPy arrays as messages: a header with dtype, shape and order, and then the bytes of the array (``docs/python.md``).

The header holds no code and nothing that is evaluated; an array that holds Python objects is refused at both ends.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

from .errors import ArrayError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, NDArray

    from ._anabranch import Message

_MAGIC = b"ABA1"
_START = struct.Struct("<4sHH")
#: Longest description of an array, in bytes.
_HEADER_MAX = 16 << 10
_DIMENSIONS_MAX = 32
#: Most fields of a structured dtype, those of nested ones included; deepest nesting.
_FIELDS_MAX = 256
_DEPTH_MAX = 8
#: The data begins at a multiple of this.
_ALIGNMENT = 64
#: Kinds of dtypes that are sent: numbers, booleans, times, fixed texts and bytes, and plain memory.
_KINDS = frozenset("biufcmMSUV")


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ArrayError("arrays need NumPy; install it with: pip install 'anabranch[numpy]'") from error
    return numpy


def _describe(dtype: numpy.dtype[Any]) -> object:
    if dtype.hasobject:
        raise ArrayError(f"the dtype {dtype} holds Python objects, which are not sent; convert the array to numbers first")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _describe(base), "shape": list(shape)}
    if dtype.names is not None:
        fields = dtype.fields
        assert fields is not None
        described = [[name, _describe(fields[name][0]), fields[name][1]] for name in dtype.names]
        return {"fields": described, "size": dtype.itemsize}
    if dtype.kind not in _KINDS:
        raise ArrayError(f"the dtype {dtype} is not one of NumPy's own; convert the array first")
    return dtype.str


def header(array: NDArray[Any]) -> bytes:
    """The header of an array that is contiguous in C or Fortran order."""
    order = "C" if array.flags.c_contiguous else "F"
    described = {"dtype": _describe(array.dtype), "shape": list(array.shape), "order": order}
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    if len(text) > _HEADER_MAX:
        raise ArrayError(f"the description of the dtype has {len(text)} bytes; at most {_HEADER_MAX} fit")
    padding = -(_START.size + len(text)) % _ALIGNMENT
    return _START.pack(_MAGIC, len(text), padding) + text + b" " * padding


def contiguous(array: ArrayLike) -> NDArray[Any]:
    """The array itself, or a contiguous copy."""
    numpy = _numpy()
    found = numpy.asanyarray(array)
    if not (found.flags.c_contiguous or found.flags.f_contiguous):
        found = numpy.ascontiguousarray(found)
    result: NDArray[Any] = found
    return result


def memory(array: NDArray[Any]) -> NDArray[Any]:
    """The bytes of a contiguous array, without a copy. Dtypes without a buffer format, such as times, have none of their own."""
    numpy = _numpy()
    flat = array.reshape(-1, order="C" if array.flags.c_contiguous else "F")
    bytes_: NDArray[Any] = flat.view(numpy.uint8) if array.dtype.itemsize else numpy.empty(0, numpy.uint8)
    return bytes_


class _Reader:
    """A dtype from its description."""

    def __init__(self) -> None:
        self._fields = 0

    def dtype(self, described: object, depth: int = 0) -> numpy.dtype[Any]:
        numpy = _numpy()
        if depth > _DEPTH_MAX:
            raise ArrayError(f"the dtype is nested more than {_DEPTH_MAX} deep")
        if isinstance(described, str):
            return self._plain(numpy, described)
        if not isinstance(described, dict):
            raise ArrayError("the dtype is neither a text nor a structure")
        if set(described) == {"base", "shape"}:
            shape = _shape(described["shape"])
            base = self.dtype(described["base"], depth + 1)
            if math.prod(shape) * base.itemsize > _SIZE_MAX:
                raise ArrayError("an item of the array is larger than a message")
            return numpy.dtype((base, shape))  # type: ignore[no-any-return]
        if set(described) == {"fields", "size"}:
            return self._structure(numpy, described, depth)
        raise ArrayError("the structure of the dtype has unknown keys")

    def _plain(self, numpy: Any, text: str) -> numpy.dtype[Any]:
        # Only the array interface's form, such as "<f8" or "<M8[ns]": NumPy would evaluate longer ones as lists of fields.
        if len(text) > 24 or len(text) < 3 or text[0] not in "<>|=" or text[1] not in _KINDS or "," in text:
            raise ArrayError(f"{text[:24]!r} is not a dtype that is sent")
        try:
            dtype = numpy.dtype(text)
        except (TypeError, ValueError) as error:
            raise ArrayError(f"{text!r} is not a dtype: {error}") from error
        if dtype.hasobject or dtype.itemsize > _SIZE_MAX:
            raise ArrayError(f"{text!r} is not a dtype that is sent")
        return dtype  # type: ignore[no-any-return]

    def _structure(self, numpy: Any, described: dict[str, object], depth: int) -> numpy.dtype[Any]:
        fields, size = described["fields"], described["size"]
        if not isinstance(fields, list) or not fields or not _is_count(size):
            raise ArrayError("the structure of the dtype has no fields, or no size")
        self._fields += len(fields)
        if self._fields > _FIELDS_MAX:
            raise ArrayError(f"the dtype has more than {_FIELDS_MAX} fields")
        names, formats, offsets = [], [], []
        for field in fields:
            if not isinstance(field, list) or len(field) != 3:
                raise ArrayError("a field of the dtype is not a name, a dtype and an offset")
            name, format_, offset = field
            if not isinstance(name, str) or not _is_count(offset):
                raise ArrayError("a field of the dtype is not a name, a dtype and an offset")
            names.append(name)
            formats.append(self.dtype(format_, depth + 1))
            offsets.append(offset)
        try:
            return numpy.dtype(  # type: ignore[no-any-return]
                {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
            )
        except (TypeError, ValueError) as error:
            raise ArrayError(f"the structure of the dtype is not valid: {error}") from error


#: Largest message, in bytes.
_SIZE_MAX = 16 << 20


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _SIZE_MAX


def _shape(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > _DIMENSIONS_MAX or not all(map(_is_count, value)):
        raise ArrayError(f"the shape is not a list of at most {_DIMENSIONS_MAX} lengths")
    return tuple(value)


def decode(message: Message) -> NDArray[Any]:
    """The array of a message: read-only, in the memory of the message."""
    numpy = _numpy()
    view = memoryview(message)
    if message.missing or message.is_cut:
        raise ArrayError("parts of the array were lost")
    if len(view) < _START.size:
        raise ArrayError(f"the message has {len(view)} bytes, too few for the header of an array")
    magic, length, padding = _START.unpack_from(view)
    if magic != _MAGIC:
        raise ArrayError("the message is not an array: it does not begin with the header of one")
    start = _START.size + length + padding
    if length > _HEADER_MAX or padding >= _ALIGNMENT or start > len(view):
        raise ArrayError("the header of the array is cut off, or too long")
    try:
        described = json.loads(bytes(view[_START.size : _START.size + length]))
    except (ValueError, RecursionError) as error:
        raise ArrayError(f"the header of the array is not JSON: {error}") from error
    if not isinstance(described, dict) or set(described) != {"dtype", "shape", "order"}:
        raise ArrayError("the header of the array has not exactly dtype, shape and order")
    if described["order"] not in ("C", "F"):
        raise ArrayError("the order of the array is neither C nor F")
    shape = _shape(described["shape"])
    dtype = _Reader().dtype(described["dtype"])
    expected, found = math.prod(shape) * dtype.itemsize, len(view) - start
    if expected != found:
        raise ArrayError(f"the header describes an array of {expected} bytes, and {found} follow")
    array: NDArray[Any] = numpy.ndarray(shape, dtype, view[start:], order=described["order"])
    return array
