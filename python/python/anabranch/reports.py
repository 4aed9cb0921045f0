"""Statistics, promises and events as data classes. Times are in seconds, rates in bit/s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import Refused


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The part of a stream's specification that both ends know."""

    #: Words of its opener.
    label: str
    #: Lost data is sent again, until the deadline.
    reliable: bool
    #: Messages arrive in the order of sending.
    ordered: bool
    #: Seconds after which a message is of no use; ``None``: never.
    deadline_s: float | None
    #: 0 to 255; larger numbers go first.
    priority: int
    #: Share among streams of equal priority.
    weight: int
    #: The accepting side may send, too.
    duplex: bool


@dataclass(frozen=True, slots=True)
class Path:
    """Measurements of a path in use."""

    #: Its number, the same at both ends; ``pinned`` takes it.
    path: int
    #: Name of the local interface, if it is known.
    interface: str | None
    #: Address of the peer.
    remote: str
    #: False while it does not respond.
    is_active: bool
    #: Smoothed round trip in seconds.
    rtt_s: float
    #: Shortest round trip in seconds.
    rtt_min_s: float
    #: Mean deviation of the round trips from the smoothed one, in seconds.
    rtt_variation_s: float
    #: Smoothed rate at which the peer confirms delivery.
    rate_delivered_bps: int
    #: Packets of this side.
    packets_sent: int
    #: Those that were declared lost.
    packets_lost: int
    #: Bytes of messages, those sent again and copies included.
    sent_bytes: int
    #: Bytes of messages that this side received.
    received_bytes: int
    #: Windows of bandwidth that were measured.
    windows: int
    #: Mean bandwidth of these windows in bit/s; ``None`` while too few were measured.
    bandwidth_mean_bps: int | None
    #: Bandwidth that 95 % of windows exceed.
    bandwidth_p5_bps: int | None
    #: Share of packets lost, of the last 2,000.
    loss_fraction: float | None


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Totals of a session."""

    #: Id of the peer.
    peer: str
    #: True if the peer opened it.
    is_incoming: bool
    #: Paths that respond.
    paths_active: int
    #: Open streams.
    streams: int
    #: Scheduling policy of this side.
    policy: str
    #: Bytes of messages sent, those sent again and copies included.
    sent_bytes: int
    #: Bytes of these that were copies, sent before the loss of the first was certain.
    copied_bytes: int
    #: Bytes held for sending: waiting, or not yet acknowledged.
    send_held_bytes: int
    #: Bytes received that the application has not read.
    receive_held_bytes: int


@dataclass(frozen=True, slots=True)
class StreamStats:
    """Totals of a stream, in messages where no unit is named."""

    #: Its number.
    stream: int
    #: Words of its opener.
    label: str
    #: Messages queued.
    sent: int
    #: Bytes of these.
    sent_bytes: int
    #: Known to be at the peer's node.
    acked: int
    #: Messages of an unreliable stream that were lost, in whole or in part.
    lost: int
    #: Outlived their deadline.
    expired: int
    #: Dropped before they were sent, because more was given than the stream's share.
    dropped: int
    #: Bytes that were sent again.
    repaired_bytes: int
    #: Bytes that wait to be sent.
    backlog_bytes: int
    #: Messages received.
    received: int
    #: Bytes of these.
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Discarded:
    """What a stream gave up in favour of something newer."""

    #: Number of messages that were not sent completely.
    messages: int
    #: Their bytes, those included that were sent.
    message_bytes: int


@dataclass(frozen=True, slots=True)
class _Demand:
    #: Rate of the guarantee in bit/s.
    rate_bps: int
    #: Share of windows in which it is kept; ``None`` for a bound on late packets.
    probability: float | None
    #: Duration of a window in seconds.
    window_s: float
    #: The guarantee in words.
    text: str


@dataclass(frozen=True, slots=True)
class Grant(_Demand):
    """A promise."""

    #: ``durable`` or ``renewable``.
    grade: str
    #: Its paths, each with the rate on it.
    shares: list[tuple[int, int]]
    #: Grade and paths in words.
    summary: str


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective in force, and what it did in the last minute. Those figures are ``None`` for rates, and in attached sessions."""

    #: Never used again in its session.
    id: int
    #: Its name in the text, if it has one.
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
class Transferred:
    """Files that are at their receiver, verified and durable."""

    #: Name at the receiver.
    name: str
    #: Number of files.
    files: int
    #: Their bytes.
    bytes: int
    #: Paths that could not be sent, each with the reason; the first 1,000.
    left_out: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LinkStats:
    """Totals of one direction of an emulated link, in packets where no unit is named."""

    #: Packets that entered it.
    offered: int
    #: Their bytes, headers of IP included.
    offered_bytes: int
    #: Those that have arrived or will.
    delivered: int
    #: Their bytes, headers of IP included.
    delivered_bytes: int
    #: Dropped because the queue was full.
    queue_full: int
    #: Lost at random.
    lost: int
    #: Offered while the link was down, or waiting when it went down.
    down: int


@dataclass(frozen=True, slots=True)
class Explanation(_Demand):
    """The state of a stream's promise, and the decisions that led to it."""

    #: Grade of the promise in force; ``None``: there is none.
    grade: str | None
    #: True if the promise will not be kept or renewed as far as can be foreseen.
    is_warned: bool
    #: Place in the order of precedence of the session's promises, from 0.
    rank: int
    #: Paths of the promise, each with the rate on it in bit/s.
    shares: list[tuple[int, int]]
    #: Windows in which it was.
    windows_kept: int
    #: Windows in which the promise was not kept.
    windows_broken: int
    #: Number of times that it was withdrawn.
    withdrawn: int
    #: Windows of bandwidth in the history of the paths.
    windows_known: int
    #: The last decisions, oldest first.
    notes: list[str]


class Event:
    """An event of a session, of a stream or of its promise."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PathUp(Event):
    """A path can carry data."""

    #: Its number.
    path: int
    #: Address of the peer on it.
    remote: str


@dataclass(frozen=True, slots=True)
class PathSuspected(Event):
    """A path has fallen silent; its data is moved to others."""

    #: Its number.
    path: int


@dataclass(frozen=True, slots=True)
class PathRecovered(Event):
    """A silent path carries data again."""

    #: Its number.
    path: int
    #: Seconds for which it was silent.
    silence_s: float


@dataclass(frozen=True, slots=True)
class PathClosed(Event):
    """A path is over; the session continues."""

    #: Its number.
    path: int
    #: The reason in words.
    reason: str


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """A message is at the peer's node (streams with ``notify``)."""

    #: Its number in its stream.
    message: int
    #: Time from its sending to the acknowledgement, in seconds.
    rtt_s: float
    #: Path by whose packet it was complete.
    path: int


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """A message of an unreliable stream is lost, in whole or in part (streams with ``notify``)."""

    #: Its number in its stream.
    message: int
    #: Ranges of bytes that are at the peer's node.
    arrived: list[tuple[int, int]]
    #: Ranges of bytes that are not.
    lost: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Fragment(Event):
    """The outcome of one packet's part of a message is known (streams with ``notify_fragments``)."""

    #: The number of the message in its stream.
    message: int
    #: First byte of the message in it, and that after the last.
    start: int
    #: Byte of the message after its last one.
    end: int
    #: Path on which it was sent.
    path: int
    #: Round trip of its packet; ``None``: lost.
    rtt_s: float | None


@dataclass(frozen=True, slots=True)
class Expired(Event):
    """A message outlived its deadline before it was known to be delivered."""

    #: Its number in its stream.
    message: int


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """A message was dropped before it was sent completely: more was given than the stream's share, or it was discarded."""

    #: Its number in its stream.
    message: int


@dataclass(frozen=True, slots=True)
class Throttle(Event):
    """The rate that the stream may send has changed."""

    #: The rate in bit/s.
    rate_bps: int


@dataclass(frozen=True, slots=True)
class Promised(Grant, Event):
    """The guarantee is promised."""


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """The promise is still in force, and will not be kept or renewed as far as can be foreseen."""

    #: Reason, and what could be promised instead.
    refusal: Refused


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """The promise has lapsed; ``Promised`` follows when it can be made again."""

    #: Reason, and what could be promised instead.
    refusal: Refused


@dataclass(frozen=True, slots=True)
class PromiseClosed(Event):
    """The stream was finished because its promise was warned."""

    #: Reason, and what could be promised instead.
    refusal: Refused


@dataclass(frozen=True, slots=True)
class ObjectiveRefused(Event):
    """A rate that objectives demand cannot be promised now; the stream waits for it where that may help."""

    #: Id of the objective.
    objective: int
    #: Number of the stream.
    stream: int
    #: Reason, and what could be promised instead.
    refusal: Refused


@dataclass(frozen=True, slots=True)
class ObjectiveFault(Event):
    """An objective could not be evaluated as it is written; each kind of fault is reported once."""

    #: Id of the objective.
    objective: int
    #: The faults in words.
    faults: list[str]


@dataclass(frozen=True, slots=True)
class OtherEvent(Event):
    """An event that this version has no class for."""

    #: The event in words.
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
