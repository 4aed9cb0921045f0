"""Errors. Their texts are those of the library, and say what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class AnabranchError(Exception):
    """Base of all errors of this package."""


class StartError(AnabranchError):
    """A node cannot start."""


class AttachError(AnabranchError):
    """No running node answers, or it does not let this program attach."""


class ForkedError(AnabranchError):
    """The handle was made before this process was forked."""


class TicketError(AnabranchError, ValueError):
    """The text is not a ticket."""


class SpecError(AnabranchError, ValueError):
    """A value of a specification is refused; the text begins with its name."""


class ArrayError(AnabranchError, ValueError):
    """A message is not an array, or an array cannot be sent."""


class StatsError(AnabranchError, ValueError):
    """An argument of a statistic is refused, or is too little for it."""


class RecordsError(AnabranchError, ValueError):
    """A manifest of a record set is refused, its bytes are not where it says, or none can be made from a file; the text names the
    file, and the variable, component or record."""


class LabError(AnabranchError):
    """The lab's program cannot be started, or has failed; the text is the program's own."""

    def __init__(self, text: str, *, code: int | None = None) -> None:
        super().__init__(text)
        #: Exit code of the program; below 0: the signal that ended it; ``None``: it did not run.
        self.code = code


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a text of objectives."""

    #: True if the text is refused for it; false for a warning.
    is_error: bool
    #: Place in the text, from 1; columns in characters.
    line: int
    #: Column from 1, in characters.
    column: int
    #: The finding in one sentence.
    text: str
    #: A correction; ``None``: there is none to suggest.
    help: str | None


class ObjectiveError(AnabranchError, ValueError):
    """A text of objectives is refused, and nothing has changed. The text shows each place."""

    def __init__(self, text: str, *, findings: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(text)
        #: Findings in order of place; empty for an attached session, whose errors are texts alone.
        self.findings = [Finding(**finding) for finding in findings]


class ConnectError(AnabranchError):
    """A session cannot be opened."""


class Unreachable(ConnectError):
    """Nothing answers at the peer's addresses."""


class Rejected(ConnectError):
    """The peer answered, and does not accept this node."""


class NoRoute(ConnectError):
    """No local address can reach one of the peer's."""


class HostNotFound(ConnectError):
    """The name of the peer's host cannot be resolved."""


class Closed(AnabranchError):
    """The session is over, or the connection to the node."""


class TransferError(AnabranchError):
    """Files could not be sent: they cannot be read, or the receiver refuses or fails."""


class SendError(AnabranchError):
    """A message was not accepted, and nothing of it was sent."""


class StreamReset(AnabranchError):
    """The peer, which was sending, reset the stream."""

    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        #: The peer's code.
        self.code = code


class StreamStopped(AnabranchError):
    """The peer, which was receiving, wants no more of the stream."""

    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        #: The peer's code.
        self.code = code


class ExportError(AnabranchError):
    """A peer cannot read what is asked for in a directory that it exports."""

    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        #: The fault (``spec/exports.md``).
        self.code = code


@dataclass(frozen=True, slots=True)
class Offer:
    """Promises that could be made instead of the one that was refused. ``None``: nothing of that kind."""

    #: The largest rate at the same probability, in bit/s.
    rate_bps: int | None = None
    #: The largest probability at the same rate.
    probability: float | None = None
    #: Stream of which a reduction would free enough capacity.
    reduce_stream: int | None = None
    #: Rate that would be left to it, in bit/s.
    reduce_to_bps: int | None = None


class Refused(AnabranchError):
    """A guarantee cannot be promised, or can no longer be."""

    def __init__(self, text: str, *, reason: str, offer: Offer) -> None:
        super().__init__(text)
        #: ``too_little_known``, ``too_little``, ``too_sure``, ``unsteady``, ``over_share``, ``displaces``, ``too_many``,
        #: ``no_guarantee`` or ``other``.
        self.reason = reason
        #: Promises that could be made instead.
        self.offer = offer
