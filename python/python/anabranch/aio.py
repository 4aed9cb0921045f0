"""Nodes, sessions and streams for ``asyncio``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _anabranch as raw
from . import arrays as _arrays
from ._bridge import Turns, finished
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
    """A stream of messages. As a context manager, it finishes and waits until everything is delivered, or resets the stream if
    its body fails."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave(error):
            await self.delivered()

    async def send(self, data: Buffer, importance: int = 0, fields: Fields | None = None) -> int:
        """Queues a message of 1 byte to 16 MiB as soon as there is space, and returns its number.

        ``data``: any contiguous buffer, which is copied once and free when this returns. ``importance``: streams that drop the
        least important messages first drop the smallest numbers, 0 to 255. ``fields``: properties for objectives, such as
        ``{"frame": "I"}``, which are not sent. Cancelled, nothing was queued.
        """
        number: int = await finished(self._raw.send(data, importance, None, named(fields)))
        return number

    async def receive(self) -> Message | None:
        """The next message; ``None`` once the peer has finished and everything was read. Cancelled, no message is lost."""
        message: Message | None = await finished(self._raw.receive())
        return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        turns = Turns()
        while True:
            await turns.take()
            message = await self.receive()
            if message is None:
                return
            yield message

    async def send_array(self, array: ArrayLike, importance: int = 0, fields: Fields | None = None) -> int:
        """Queues a NumPy array as one message, as ``send`` does; one that is not contiguous is copied twice."""
        number: int = await finished(self._send_array(array, importance, fields))
        return number

    async def receive_array(self) -> NDArray[Any] | None:
        """The next message as a read-only array in its memory; ``None`` after the last."""
        message = await self.receive()
        return None if message is None else _arrays.decode(message)

    async def arrays(self) -> AsyncIterator[NDArray[Any]]:
        """The messages as read-only arrays."""
        async for message in self:
            yield _arrays.decode(message)

    async def delivered(self) -> None:
        """Waits, after ``finish``, until the peer's node has everything."""
        await finished(self._raw.delivered())

    async def events(self) -> AsyncIterator[Event]:
        """Outcomes of messages, and changes of the rate; ends with the stream."""
        async for happened in _until_closed(self._raw.next_event):
            yield happened

    async def promises(self) -> AsyncIterator[Event]:
        """Events of the promise; ends with the stream."""
        async for happened in _until_closed(self._raw.next_promise):
            yield happened

    async def explain(self) -> Explanation | None:
        """State of the promise and the decisions about it; ``None``: none was demanded."""
        fields = await finished(self._raw.explain())
        return None if fields is None else Explanation(**fields)

    async def on_time(self, size: int, within: Time) -> float | None:
        """Probability that a message of ``size`` bytes would arrive within this time; ``None`` while it is not known."""
        probability: float | None = await finished(self._raw.on_time(size, seconds("within", within)))
        return probability

    async def update_fields(self, message: int, fields: Fields) -> bool:
        """Sets header fields of a message by its number; the others stay. False if its outcome is known already."""
        updated: bool = await finished(self._raw.update_fields(message, list(fields.items())))
        return updated

    async def adjust(
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
        await finished(self._raw.adjust(changes_text(weight, cap, drop, redundant, priority, deadline)))

    async def discard(self) -> Discarded:
        """Gives up the messages that are not sent completely, in favour of something newer, on a stream that may lose messages. Each is
        a :class:`anabranch.reports.Dropped`, and none of them arrives. Fails on a stream that is reliable and has no deadline: what it was
        given is delivered."""
        return Discarded(*await finished(self._raw.discard()))

    async def change_guarantee(self, guarantee: Guarantee | None) -> None:
        """Asks for another guarantee; ``None`` releases the promise. Refused, the old promise stays."""
        await finished(self._raw.change_guarantee(guarantee_text(guarantee)))


async def _until_closed(next_one: Callable[[], Any]) -> AsyncIterator[Event]:
    turns = Turns()
    while True:
        await turns.take()
        try:
            happened = await finished(next_one())
        except Closed:
            return
        yield event(happened)


class Session(SessionHandle):
    """A session with a peer. As a context manager, it is closed at the end: wait for what must arrive before."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def open(self, label: str, **options: Unpack[StreamOptions]) -> Stream:
        """Opens a stream; the options are those of :class:`anabranch.StreamOptions`.

        Raises ``Refused`` if it has a guarantee that cannot be promised and does not wait.
        """
        return Stream(await finished(self._raw.open(spec_text(label, options))))

    async def accept(self) -> Stream:
        """The next stream that the peer opens."""
        return Stream(await finished(self._raw.accept()))

    async def streams(self) -> AsyncIterator[Stream]:
        """The streams that the peer opens; ends with the session."""
        while True:
            try:
                stream = await self.accept()
            except Closed:
                return
            yield stream

    async def admit(self, **options: Unpack[StreamOptions]) -> Grant:
        """The promise that ``open`` would get now; raises ``Refused``, with offers, if it would get none."""
        return Grant(**await finished(self._raw.admit(spec_text("", options))))

    async def add_objectives(self, text: str) -> tuple[list[int], list[Finding]]:
        """Applies the objectives of a HOSE text (``docs/hose.md``) to what this side sends, all or none of them. Returns their ids,
        and warnings about the text. Raises ``ObjectiveError``, with the place of each error.

        They have an effect under the policies ``"assign"`` and ``"random_walk"``, see ``set_policy``.
        """
        return added(await finished(self._raw.add_objectives(text)))

    async def set_objectives(self, text: str) -> tuple[list[int], list[Finding]]:
        """As ``add_objectives``, in place of all objectives that are in force; if the text is refused, those stay."""
        before = await self.objectives()
        result = await self.add_objectives(text)
        for objective in before:
            await self.remove_objective(objective.id)
        return result

    async def remove_objective(self, objective: int) -> bool:
        """Removes an objective by its id; false if it is not in force."""
        removed: bool = await finished(self._raw.remove_objective(objective))
        return removed

    async def objectives(self) -> list[Objective]:
        """The objectives in force, and what they did in the last minute."""
        return objectives(await finished(self._raw.objectives()))

    async def events(self) -> AsyncIterator[Event]:
        """Changes of the paths, and faults of objectives; ends with the session."""
        async for happened in _until_closed(self._raw.next_event):
            yield happened

    async def closed(self) -> str:
        """Waits until the session is over; returns the reason."""
        reason: str = await finished(self._raw.closed())
        return reason


class Node(NodeHandle):
    """A node in this process. As a context manager, it shuts down at the end."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    @asynccontextmanager
    async def connect(self, peer: str, addresses: Sequence[str] = ()) -> AsyncIterator[Session]:
        """A session with the node of this id at these addresses, or of a ticket."""
        async with await self.open_session(peer, addresses) as session:
            yield session

    async def open_session(self, peer: str, addresses: Sequence[str] = ()) -> Session:
        """As ``connect``, without a context: it ends when it is closed, or with its last handle."""
        return Session(await finished(self._connect(peer, addresses)))

    async def accept(self) -> Session | None:
        """The next session that a peer opens; ``None`` once the node has shut down."""
        session = await finished(self._raw.accept())
        return None if session is None else Session(session)

    async def sessions(self) -> AsyncIterator[Session]:
        """The sessions that peers open; ends with the node."""
        while (session := await self.accept()) is not None:
            yield session

    async def send_files(
        self, ticket: str, path: str | os.PathLike[str], *, name: str | None = None, retry_for: Time = 0
    ) -> Transferred:
        """Sends a file or directory to the receiver of a ticket, such as ``anabranch recv``, and waits until it has all of it. The
        ticket's secret admits this node.

        ``name``: its name at the receiver; ``None``: that of the path. ``retry_for``: time for which the receiver is dialled again
        after an interruption; the transfer then continues. Raises ``TicketError`` or ``TransferError``.
        """
        return Transferred(**await finished(self._send_files(ticket, path, name, retry_for)))

    async def shutdown(self) -> None:
        """Closes all sessions and tells the peers, about a second at most."""
        await finished(self._raw.shutdown())


@asynccontextmanager
async def connect(
    ticket: str, *, key: Key | None = None, bind: Sequence[str] | None = None
) -> AsyncIterator[Session]:
    """A session with the node of a ticket, from a node of its own; see :class:`Node` for ``key`` and ``bind``."""
    raw.parse_ticket(ticket)
    async with Node(key=key, bind=bind) as node, node.connect(ticket) as session:
        yield session


class Client:
    """A program's connection to a running node. It ends with its last handle."""

    __slots__ = ("_raw",)

    def __init__(self, client: raw.Client) -> None:
        self._raw = client

    @property
    def id(self) -> str:
        """Identity of the node."""
        return self._raw.id

    async def connect(self, peer: str, addresses: Sequence[str] = ()) -> Session:
        """A session with a peer: its name in the node's configuration, its id, or a ticket. Programs share it."""
        return Session(await finished(self._raw.connect(peer, list(addresses))))

    async def service(self, label: str) -> AsyncIterator[tuple[str, Stream]]:
        """The streams that peers open with this label, or with its beginning if it ends with ``*``, each with the id of the
        peer."""
        service = await finished(self._raw.register(label))
        while True:
            try:
                peer, stream = await finished(service.accept())
            except Closed:
                return
            yield peer, Stream(stream)


async def attach(path: str | None = None, program: str = "python") -> Client:
    """Attaches to the running node of this user, or to that at a Unix socket."""
    return Client(await finished(raw.Client.attach(path, program)))
