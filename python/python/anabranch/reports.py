"""Statistics, promises and events as data classes. Times are in seconds, rates in bit/s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import Refused


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The part of a stream's specification that both ends know."""

    label: str
    reliable: bool
    ordered: bool
    deadline_s: float | None
    priority: int
    weight: int
    duplex: bool


@dataclass(frozen=True, slots=True)
class Path:
    """Measurements of a path in use."""

    path: int
    #: Name of the local interface, if it is known.
    interface: str | None
    #: Address of the peer.
    remote: str
    #: False while it does not respond.
    is_active: bool
    rtt_s: float
    rtt_min_s: float
    rtt_variation_s: float
    #: Smoothed rate at which the peer confirms delivery.
    rate_delivered_bps: int
    packets_sent: int
    packets_lost: int
    #: Bytes of messages, those sent again and copies included.
    sent_bytes: int
    received_bytes: int
    #: Windows of bandwidth that were measured.
    windows: int
    bandwidth_mean_bps: int | None
    #: Bandwidth that 95 % of windows exceed.
    bandwidth_p5_bps: int | None
    #: Share of packets lost, of the last 2,000.
    loss_fraction: float | None


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Totals of a session."""

    peer: str
    is_incoming: bool
    paths_active: int
    streams: int
    #: Scheduling policy of this side.
    policy: str
    sent_bytes: int
    copied_bytes: int
    send_held_bytes: int
    receive_held_bytes: int


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Totals of a stream, in messages where no unit is named."""

    stream: int
    label: str
    sent: int
    sent_bytes: int
    #: Known to be at the peer's node.
    acked: int
    lost: int
    #: Outlived their deadline.
    expired: int
    #: Dropped before they were sent, because more was given than the stream's share.
    dropped: int
    repaired_bytes: int
    backlog_bytes: int
    received: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A promise."""

    rate_bps: int
    #: Share of windows in which it is kept; ``None`` for a bound on late packets.
    probability: float | None
    window_s: float
    #: The guarantee in words.
    text: str
    #: ``durable`` or ``renewable``.
    grade: str
    #: Its paths, each with the rate on it.
    shares: list[tuple[int, int]]
    summary: str


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective in force, and what it did in the last minute. Those figures are ``None`` for rates, and in attached sessions."""

    #: Never used again in its session.
    id: int
    name: str | None
    #: ``single``: it rates messages one by one; ``combinatorial``: several together; ``streams``: streams alone; ``rate``: a
    #: demand for a promise.
    kind: str
    #: Its source text.
    text: str
    #: Bindings of its variables to messages that were sent.
    contexts: int | None
    #: Those in which its goal was true.
    contexts_met: int | None
    #: Those that could not be evaluated as they are written.
    contexts_faulty: int | None
    #: Sum of the utility in these.
    utility: float | None
    #: Kinds of faults.
    faults: list[str]


@dataclass(frozen=True, slots=True)
class LinkStats:
    """Totals of one direction of an emulated link, in packets where no unit is named."""

    offered: int
    offered_bytes: int
    #: Those that have arrived or will.
    delivered: int
    delivered_bytes: int
    #: Dropped because the queue was full.
    queue_full: int
    #: Lost at random.
    lost: int
    #: Offered while the link was down, or waiting when it went down.
    down: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a stream's promise, and the decisions that led to it."""

    rate_bps: int
    probability: float | None
    window_s: float
    text: str
    #: Grade of the promise in force; ``None``: there is none.
    grade: str | None
    is_warned: bool
    rank: int
    shares: list[tuple[int, int]]
    windows_kept: int
    windows_broken: int
    withdrawn: int
    windows_known: int
    #: The last decisions, oldest first.
    notes: list[str]


class Event:
    """An event of a session, of a stream or of its promise."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PathUp(Event):
    """A path can carry data."""

    path: int
    remote: str


@dataclass(frozen=True, slots=True)
class PathSuspected(Event):
    """A path has fallen silent; its data is moved to others."""

    path: int


@dataclass(frozen=True, slots=True)
class PathRecovered(Event):
    """A silent path carries data again."""

    path: int
    silence_s: float


@dataclass(frozen=True, slots=True)
class PathClosed(Event):
    """A path is over; the session continues."""

    path: int
    reason: str


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A message is at the peer's node (streams with ``notify``)."""

    message: int
    rtt_s: float
    path: int


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """A message of an unreliable stream is lost, in whole or in part (streams with ``notify``)."""

    message: int
    arrived: list[tuple[int, int]]
    lost: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Fragment(Event):
    """The outcome of one packet's part of a message is known (streams with ``notify_fragments``)."""

    message: int
    #: First byte of the message in it, and that after the last.
    start: int
    end: int
    path: int
    #: Round trip of its packet; ``None``: lost.
    rtt_s: float | None


@dataclass(frozen=True, slots=True)
class Expired(Event):
    """A message outlived its deadline before it was known to be delivered."""

    message: int


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """A message was dropped before it was sent: more was given than the stream's share."""

    message: int


@dataclass(frozen=True, slots=True)
class Throttle(Event):
    """The rate that the stream may send has changed."""

    rate_bps: int


@dataclass(frozen=True, slots=True)
class Promised(Grant, Event):
    """The guarantee is promised."""


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """The promise is still in force, and will not be kept or renewed as far as can be foreseen."""

    refusal: Refused


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """The promise has lapsed; ``Promised`` follows when it can be made again."""

    refusal: Refused


@dataclass(frozen=True, slots=True)
class PromiseClosed(Event):
    """The stream was finished because its promise was warned."""

    refusal: Refused


@dataclass(frozen=True, slots=True)
class ObjectiveRefused(Event):
    """A rate that objectives demand cannot be promised now; the stream waits for it where that may help."""

    objective: int
    stream: int
    refusal: Refused


@dataclass(frozen=True, slots=True)
class ObjectiveFault(Event):
    """An objective could not be evaluated as it is written; each kind of fault is reported once."""

    objective: int
    faults: list[str]


@dataclass(frozen=True, slots=True)
class OtherEvent(Event):
    """An event that this version has no class for."""

    text: str


_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        PathUp, PathSuspected, PathRecovered, PathClosed, Acked, Lost, Fragment, Expired, Dropped, Throttle, Promised, Warned,
        Withdrawn, PromiseClosed, ObjectiveRefused, ObjectiveFault, OtherEvent,
    )
}  # fmt: skip


def event(raw: tuple[str, dict[str, Any]]) -> Event:
    """An event from what the extension module reports."""
    name, fields = raw
    return _EVENTS[name](**fields)
