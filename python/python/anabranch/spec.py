"""Specifications of streams and guarantees."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict

from .errors import SpecError

#: A rate: bit/s as a number, or a text such as ``"2 Mbit/s"``.
RateValue = int | float | str
#: A time: seconds as a number, a ``timedelta``, or a text such as ``"200 ms"``.
Time = int | float | str | timedelta
#: A probability above 0 and below 1, or a text such as ``"95 %"``.
Probability = float | str

#: Grade of a promise: until the stream closes, for a term that is renewed, or the best of both that can be had.
Grade = Literal["best", "durable", "renewable"]
#: Reaction to a warning: stay until the promise is kept again or lapses, take the offer in its place, or close the stream.
OnWarning = Literal["stay", "take offer", "close"]
#: Values for the options that are absent (``docs/profiles.md``).
Profile = Literal["interactive", "live", "bulk", "background", "redundant", "telemetry"]
#: A number from 0 to 255, or a name of 0, 64, 128 and 192.
Priority = int | Literal["scavenger", "bulk", "normal", "urgent"]
#: Choice of the messages that an unreliable stream drops; ``none``: the application is held back.
DropOrder = Literal["oldest", "newest", "least_important", "none"]


def _number(name: str, value: float, form: str) -> float:
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise SpecError(f"{name}: {value!r} is not valid; give {form}")
    return value


def _rate(name: str, value: RateValue) -> str:
    if isinstance(value, str):
        return value
    return f'{round(_number(name, value, "bit/s, or a text such as 2 Mbit/s"))} bit/s'


def _time(name: str, value: Time) -> str:
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return f'{round(_number(name, seconds, "seconds, a timedelta, or a text such as 200 ms") * 1e9)} ns'


def seconds(name: str, value: Time) -> float:
    """A time in seconds; a text has a unit of ``ns``, ``us``, ``ms``, ``s``, ``min`` or ``h``."""
    if isinstance(value, timedelta):
        return _number(name, value.total_seconds(), "a time of 0 or more")
    if not isinstance(value, str):
        return _number(name, value, "seconds, a timedelta, or a text such as 200 ms")
    number, _, unit = value.partition(" ")
    try:
        return _number(name, float(number) * _UNITS[unit.strip()], "a time of 0 or more")
    except (KeyError, ValueError):
        raise SpecError(f'{name}: {value!r} is not a time; give one such as "200 ms", or seconds as a number') from None


_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _share(name: str, value: Probability) -> str:
    if isinstance(value, str):
        return value
    if not 0 < _number(name, value, "a number above 0 and below 1") < 1:
        raise SpecError(f"{name}: {value!r} cannot be promised; give a number above 0 and below 1, such as 0.95")
    return f"{value * 100:.12g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guarantee:
    #: The window in which the demand is met or not: 1 to 10 whole seconds.
    window: Time | None = None
    #: Duration of a renewable promise, from one window to 10 s.
    term: Time | None = None
    #: ``best``: durable, or else renewable.
    grade: Grade | None = None
    #: The stream opens even if nothing can be promised yet, and is promised it as soon as that is possible.
    waits: bool = False
    #: Other rates at which the source can send; the highest that can be promised is.
    levels: Sequence[RateValue] = ()
    #: Reaction to a warning.
    on_warning: OnWarning | None = None

    def _common(self) -> dict[str, Any]:
        keys: dict[str, Any] = {"waits": self.waits}
        if self.window is not None:
            keys["window"] = _time("guarantee.window", self.window)
        if self.term is not None:
            keys["term"] = _time("guarantee.term", self.term)
        if self.grade is not None:
            keys["grade"] = self.grade
        if self.levels:
            keys["levels"] = [_rate("guarantee.levels", level) for level in self.levels]
        if self.on_warning is not None:
            keys["on_warning"] = self.on_warning
        return keys


@dataclass(frozen=True, slots=True)
class Rate(_Guarantee):
    """At least ``rate`` in a share ``probability`` of all windows."""

    #: The rate, headers not included.
    rate: RateValue
    #: Share of windows in which it is reached.
    probability: Probability

    def _keys(self) -> dict[str, Any]:
        own = {
            "rate": _rate("guarantee.rate", self.rate),
            "probability": _share("guarantee.probability", self.probability),
        }
        return own | self._common()


@dataclass(frozen=True, slots=True)
class Packets(_Guarantee):
    """Of every ``of`` packets of ``packet_bytes``, which come in one window, at least ``serve`` in it, in a share
    ``probability`` of all windows."""

    #: Packets that are served in their window, at least.
    serve: int
    #: Packets that come in a window.
    of: int
    #: Bytes of a packet.
    packet_bytes: int
    #: Share of windows in which that is so.
    probability: Probability

    def _keys(self) -> dict[str, Any]:
        own = {
            "packets": f"{self.serve}/{self.of}",
            "packet_bytes": self.packet_bytes,
            "probability": _share("guarantee.probability", self.probability),
        }
        return own | self._common()


@dataclass(frozen=True, slots=True)
class Late(_Guarantee):
    """Of the packets of ``packet_bytes`` that ``rate`` makes in a window, at most ``late_packets`` miss it on average."""

    #: Rate of the packets.
    rate: RateValue
    #: Bytes of a packet.
    packet_bytes: int
    #: Packets of a window that are late, on average.
    late_packets: float

    def _keys(self) -> dict[str, Any]:
        own = {
            "rate": _rate("guarantee.rate", self.rate),
            "packet_bytes": self.packet_bytes,
            "late_packets": self.late_packets,
        }
        return own | self._common()


#: One of the three demands.
Guarantee = Rate | Packets | Late


class StreamOptions(TypedDict, total=False):
    """Keyword arguments of ``open`` and ``admit``. What is absent has its default, or that of the profile."""

    #: Values for everything that is absent.
    profile: Profile
    #: The promise demanded.
    guarantee: Guarantee | None
    #: Time after which a message is of no use, 1 ms to 1 h; it is dropped then.
    deadline: Time | None
    #: Messages arrive in the order of sending.
    ordered: bool
    #: Of the messages that wait, the newest is sent first; so they arrive in any order.
    newest_first: bool
    #: Lost data is sent again, until the deadline.
    reliable: bool
    #: Larger numbers go first.
    priority: Priority
    #: Share among streams of equal priority, 1 to 10,000.
    weight: int
    #: Rate limit of the stream.
    cap: RateValue
    #: Messages that an unreliable stream drops when more is sent than its share.
    drop: DropOrder
    #: Path preferences, such as ``never metered``, ``prefer interface=eth*``, ``backup any``.
    paths: Sequence[str]
    #: Every packet is sent on every path.
    redundant: bool
    #: A promise may be spread over several paths.
    may_split: bool
    #: The peer may send, too.
    duplex: bool
    #: An unreliable stream delivers messages of which a part was lost.
    partial: bool
    #: The outcome of every message is an event.
    notify: bool
    #: So is that of every packet's part of a message: an event for each packet.
    notify_fragments: bool
    #: The only path that the stream may use, by its number in ``session.paths()``.
    pinned: int


_OPTIONS = frozenset(StreamOptions.__annotations__)
_AS_THEY_ARE = (
    "profile", "reliable", "weight", "drop", "redundant", "may_split", "duplex", "partial", "notify",
    "notify_fragments", "pinned",
)  # fmt: skip


def spec_text(label: str, options: StreamOptions) -> str:
    """The specification as the extension module takes it."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r} of a stream; the options are {', '.join(sorted(_OPTIONS))}")
    given: dict[str, Any] = dict(options)
    keys: dict[str, Any] = {"label": label}
    keys |= {name: given[name] for name in _AS_THEY_ARE if name in given}
    if (deadline := given.get("deadline")) is not None:
        keys["lifetime"] = _time("deadline", deadline)
    if "ordered" in given:
        keys["order"] = "ordered" if given["ordered"] else "unordered"
    if given.get("newest_first"):
        if given.get("ordered"):
            raise ValueError("a stream that is ordered cannot send the newest message first")
        keys["order"] = "newest_first"
    if "priority" in given:
        keys["priority"] = str(given["priority"])
    if "cap" in given:
        keys["cap"] = _rate("cap", given["cap"])
    if "paths" in given:
        keys["paths"] = list(given["paths"])
    if (guarantee := given.get("guarantee")) is not None:
        keys["guarantee"] = guarantee._keys()
    return _json(keys)


def changes_text(
    weight: int | None,
    cap: RateValue | None,
    drop: DropOrder | None,
    redundant: bool | None,
    priority: Priority | None,
    deadline: Time | None,
) -> str:
    """Changes of a stream as the extension module takes them."""
    keys: dict[str, Any] = {}
    if weight is not None:
        keys["weight"] = weight
    if cap is not None:
        keys["cap"] = None if cap == "none" else _rate("cap", cap)
    if drop is not None:
        keys["drop"] = None if drop == "none" else drop
    if redundant is not None:
        keys["redundant"] = redundant
    if priority is not None:
        keys["priority"] = str(priority)
    if deadline is not None:
        keys["lifetime"] = None if deadline == "none" else _time("deadline", deadline)
    return _json(keys)


def guarantee_text(guarantee: Guarantee | None) -> str:
    """The guarantee as the extension module takes it."""
    return _json(None if guarantee is None else guarantee._keys())


def _json(keys: object) -> str:
    try:
        return json.dumps(keys, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"a value of the specification is not valid: {error}") from error
