"""Nodes, sessions and streams for programs without an event loop.

Each call waits in its thread, without the interpreter's lock, and obeys Ctrl-C. ``timeout``, in seconds, raises
``TimeoutError``; then nothing was sent or taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _anabranch as raw
from . import arrays as _arrays
from ._bridge import waited
from ._handles import Fields, Key, NodeHandle, SessionHandle, StreamHandle, added, named, objectives
from .errors import Closed, Finding
from .reports import Discarded, Event, Explanation, Grant, Objective, Transferred, event
from .spec import DropOrder, Guarantee, Priority, RateValue, StreamOptions, Time, changes_text, guarantee_text, seconds, spec_text

if TYPE_CHECKING:
    # Of Python 3.11.
    from typing import Self, Unpack

    from numpy.typing import ArrayLike, NDArray

    from ._anabranch import Buffer, Message


class Stream(StreamHandle):
    """A stream of messages; see :class:`anabranch.Stream`."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave(error):
            self.delivered()

    def send(
        self, data: Buffer, importance: int = 0, timeout: float | None = None, fields: Fields | None = None
    ) -> int:
        """Queues a message as soon as there is space, and returns its number; see :meth:`anabranch.aio.Stream.send`."""
        number: int = waited(self._raw.send(data, importance, None, named(fields)), timeout)
        return number

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; ``None`` once the peer has finished and everything was read."""
        message: Message | None = waited(self._raw.receive(), timeout)
        return message

    def __iter__(self) -> Iterator[Message]:
        while (message := self.receive()) is not None:
            yield message

    def send_array(
        self, array: ArrayLike, importance: int = 0, timeout: float | None = None, fields: Fields | None = None
    ) -> int:
        """Queues a NumPy array as one message, as ``send`` does."""
        number: int = waited(self._send_array(array, importance, fields), timeout)
        return number

    def receive_array(self, timeout: float | None = None) -> NDArray[Any] | None:
        """The next message as a read-only array in its memory; ``None`` after the last."""
        message = self.receive(timeout)
        return None if message is None else _arrays.decode(message)

    def arrays(self) -> Iterator[NDArray[Any]]:
        """The messages as read-only arrays."""
        for message in self:
            yield _arrays.decode(message)

    def delivered(self, timeout: float | None = None) -> None:
        """Waits, after ``finish``, until the peer's node has everything."""
        waited(self._raw.delivered(), timeout)

    def events(self) -> Iterator[Event]:
        """Outcomes of messages, and changes of the rate; ends with the stream."""
        return _until_closed(self._raw.next_event)

    def promises(self) -> Iterator[Event]:
        """Events of the promise; ends with the stream."""
        return _until_closed(self._raw.next_promise)

    def explain(self) -> Explanation | None:
        """State of the promise and the decisions about it; ``None``: none was demanded."""
        fields = waited(self._raw.explain())
        return None if fields is None else Explanation(**fields)

    def on_time(self, size: int, within: Time) -> float | None:
        """Probability that a message of ``size`` bytes would arrive within this time; ``None`` while it is not known."""
        probability: float | None = waited(self._raw.on_time(size, seconds("within", within)))
        return probability

    def update_fields(self, message: int, fields: Fields) -> bool:
        """Sets header fields of a message by its number; the others stay. False if its outcome is known already."""
        updated: bool = waited(self._raw.update_fields(message, list(fields.items())))
        return updated

    def adjust(
        self,
        *,
        weight: int | None = None,
        cap: RateValue | None = None,
        drop: DropOrder | None = None,
        redundant: bool | None = None,
        priority: Priority | None = None,
        deadline: Time | None = None,
    ) -> None:
        """Changes what this side sends, from the next packet on, the deadline from the next message on; ``"none"`` removes a cap, a
        drop order or a deadline. Values are those of :class:`anabranch.StreamOptions`."""
        waited(self._raw.adjust(changes_text(weight, cap, drop, redundant, priority, deadline)))

    def discard(self) -> Discarded:
        """Gives up the messages that are not sent completely, in favour of something newer, on a stream that may lose messages. Each is
        a :class:`anabranch.reports.Dropped`, and none of them arrives. Fails on a stream that is reliable and has no deadline: what it was
        given is delivered."""
        return Discarded(*waited(self._raw.discard()))

    def change_guarantee(self, guarantee: Guarantee | None) -> None:
        """Asks for another guarantee; ``None`` releases the promise. Refused, the old promise stays."""
        waited(self._raw.change_guarantee(guarantee_text(guarantee)))


def _until_closed(next_one: Callable[[], Any]) -> Iterator[Event]:
    while True:
        try:
            happened = waited(next_one())
        except Closed:
            return
        yield event(happened)


class Session(SessionHandle):
    """A session with a peer; see :class:`anabranch.Session`."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self, label: str, **options: Unpack[StreamOptions]) -> Stream:
        """Opens a stream; the options are those of :class:`anabranch.StreamOptions`."""
        return Stream(waited(self._raw.open(spec_text(label, options))))

    def accept(self, timeout: float | None = None) -> Stream:
        """The next stream that the peer opens."""
        return Stream(waited(self._raw.accept(), timeout))

    def streams(self) -> Iterator[Stream]:
        """The streams that the peer opens; ends with the session."""
        while True:
            try:
                stream = self.accept()
            except Closed:
                return
            yield stream

    def admit(self, **options: Unpack[StreamOptions]) -> Grant:
        """The promise that ``open`` would get now; raises ``Refused``, with offers, if it would get none."""
        return Grant(**waited(self._raw.admit(spec_text("", options))))

    def add_objectives(self, text: str) -> tuple[list[int], list[Finding]]:
        """Applies the objectives of a HOSE text (``docs/hose.md``) to what this side sends, all or none of them. Returns their ids,
        and warnings about the text. Raises ``ObjectiveError``, with the place of each error.

        They have an effect under the policies ``"assign"`` and ``"random_walk"``, see ``set_policy``.
        """
        return added(waited(self._raw.add_objectives(text)))

    def set_objectives(self, text: str) -> tuple[list[int], list[Finding]]:
        """As ``add_objectives``, in place of all objectives that are in force; if the text is refused, those stay."""
        before = self.objectives()
        result = self.add_objectives(text)
        for objective in before:
            self.remove_objective(objective.id)
        return result

    def remove_objective(self, objective: int) -> bool:
        """Removes an objective by its id; false if it is not in force."""
        removed: bool = waited(self._raw.remove_objective(objective))
        return removed

    def objectives(self) -> list[Objective]:
        """The objectives in force, and what they did in the last minute."""
        return objectives(waited(self._raw.objectives()))

    def events(self) -> Iterator[Event]:
        """Changes of the paths, and faults of objectives; ends with the session."""
        return _until_closed(self._raw.next_event)

    def closed(self, timeout: float | None = None) -> str:
        """Waits until the session is over; returns the reason."""
        reason: str = waited(self._raw.closed(), timeout)
        return reason


class Node(NodeHandle):
    """A node in this process. As a context manager, it shuts down at the end."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def connect(self, peer: str, addresses: Sequence[str] = (), timeout: float | None = None) -> Session:
        """A session with the node of this id at these addresses, or of a ticket; a context manager."""
        return Session(waited(self._connect(peer, addresses), timeout))

    def accept(self, timeout: float | None = None) -> Session | None:
        """The next session that a peer opens; ``None`` once the node has shut down."""
        session = waited(self._raw.accept(), timeout)
        return None if session is None else Session(session)

    def sessions(self) -> Iterator[Session]:
        """The sessions that peers open; ends with the node."""
        while (session := self.accept()) is not None:
            yield session

    def send_files(
        self, ticket: str, path: str | os.PathLike[str], *, name: str | None = None, retry_for: Time = 0, timeout: float | None = None
    ) -> Transferred:
        """Sends a file or directory to the receiver of a ticket, such as ``anabranch recv``, and waits until it has all of it. The
        ticket's secret admits this node.

        ``name``: its name at the receiver; ``None``: that of the path. ``retry_for``: time for which the receiver is dialled again
        after an interruption; the transfer then continues. Raises ``TicketError`` or ``TransferError``.
        """
        return Transferred(**waited(self._send_files(ticket, path, name, retry_for), timeout))

    def shutdown(self) -> None:
        """Closes all sessions and tells the peers, about a second at most."""
        waited(self._raw.shutdown())


@contextmanager
def connect(
    ticket: str, *, key: Key | None = None, bind: Sequence[str] | None = None
) -> Iterator[Session]:
    """A session with the node of a ticket, from a node of its own."""
    raw.parse_ticket(ticket)
    with Node(key=key, bind=bind) as node, node.connect(ticket) as session:
        yield session


class Client:
    """A program's connection to a running node; see :class:`anabranch.Client`."""

    __slots__ = ("_raw",)

    def __init__(self, client: raw.Client) -> None:
        self._raw = client

    @property
    def id(self) -> str:
        """Identity of the node."""
        return self._raw.id

    def connect(self, peer: str, addresses: Sequence[str] = (), timeout: float | None = None) -> Session:
        """A session with a peer: its name in the node's configuration, its id, or a ticket."""
        return Session(waited(self._raw.connect(peer, list(addresses)), timeout))

    def service(self, label: str) -> Iterator[tuple[str, Stream]]:
        """The streams that peers open with this label, each with the id of the peer."""
        service = waited(self._raw.register(label))
        while True:
            try:
                peer, stream = waited(service.accept())
            except Closed:
                return
            yield peer, Stream(stream)


def attach(path: str | None = None, program: str = "python") -> Client:
    """Attaches to the running node of this user, or to that at a Unix socket."""
    return Client(waited(raw.Client.attach(path, program)))
