"""Parts of the handles that never wait, common to ``anabranch.aio`` and ``anabranch.sync``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _anabranch as raw
from . import arrays
from ._nodes import started
from .errors import AnabranchError, Finding
from .reports import Objective, Path, SessionStats, StreamSpec, StreamStats
from .spec import Time, seconds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: Header fields of a message, which objectives may use and which are not sent: numbers, booleans or texts.
Fields = Mapping[str, float | bool | str]

#: Key of a node: a seed of 32 bytes, or its file, which is created if it does not exist.
Key = bytes | str | os.PathLike[str]

#: Admits every node that reaches this one: for networks without strangers, and for experiments.
ANYONE = "anyone"


class NodeHandle:
    """A node in this process."""

    __slots__ = ("_raw",)

    def __init__(
        self,
        *,
        key: Key | None = None,
        bind: Sequence[str] | None = None,
        allow: Sequence[str] | str = (),
        controller: str | None = None,
    ) -> None:
        """Starts the node.

        ``key``: its key; ``None`` makes one that is forgotten with the node. ``bind``: local addresses such as
        ``"127.0.0.1:0"``; ``None`` uses every interface, and follows their changes. ``allow``: ids of the nodes that may open
        sessions with this one, or ``ANYONE``. ``controller``: congestion controller of its paths, such as ``"cubic"``, or
        ``"fixed 10 Mbit/s"`` for paths that are provisioned for that rate; ``None``: the library's own. Raises ``StartError`` or
        ``SpecError``.
        """
        if isinstance(allow, str) and allow != ANYONE:
            raise TypeError("allow is a list of ids of nodes, or anabranch.ANYONE")
        if isinstance(key, bytes | bytearray):
            if len(key) != 32:
                raise ValueError(f"the seed of a key has 32 bytes, this one has {len(key)}")
            seed: list[int] | str | None = list(key)
        else:
            seed = None if key is None else os.fspath(key)
        allowed = None if isinstance(allow, str) else list(allow)
        self._raw = started(raw.Node(seed, None if bind is None else list(bind), allowed, controller))

    @property
    def id(self) -> str:
        """Identity of the node: its public key."""
        return self._raw.id

    def addresses(self) -> list[str]:
        """Addresses at which peers can reach the node."""
        return self._raw.addresses()

    def ticket(self) -> str:
        """One line of text with which a node that this one admits reaches it."""
        return self._raw.ticket()

    def allow(self, peer: str) -> None:
        """Admits the node with this id from now on."""
        self._raw.allow(peer)

    def _connect(self, peer: str, addresses: Sequence[str]) -> Any:
        """Begins to connect, to a ticket if there are no addresses."""
        if not addresses:
            peer, addresses = raw.parse_ticket(peer)
        return self._raw.connect(peer, list(addresses))

    def _send_files(self, ticket: str, path: str | os.PathLike[str], name: str | None, retry_for: Time) -> Any:
        """Begins a transfer."""
        return self._raw.send_files(ticket, os.fspath(path), name, seconds("retry_for", retry_for))


class SessionHandle:
    """A session with a peer."""

    __slots__ = ("_raw",)

    def __init__(self, session: raw.Session) -> None:
        self._raw = session

    @property
    def peer(self) -> str:
        """Identity of the peer."""
        return self._raw.peer

    def close(self, code: int = 0, reason: str = "") -> None:
        """Closes the session now; what is not delivered is lost. The session of an attached program stays with the node."""
        self._raw.close(code, reason)

    def paths(self) -> list[Path]:
        """Measurements of the paths in use."""
        return [Path(**path) for path in self._raw.paths()]

    def stats(self) -> SessionStats | None:
        """Totals of the session; ``None`` once it is over."""
        stats = self._raw.stats()
        return None if stats is None else SessionStats(**stats)

    def set_policy(self, policy: str) -> None:
        """Changes the scheduling policy of what this side sends: ``"assign"`` follows objectives, ``"default"`` keeps promises, and others
        are named in the error about a wrong one. Sessions of an attached program have the node's."""
        self._raw.set_policy(policy)

    def stream_stats(self) -> list[StreamStats]:
        """Totals of the open streams."""
        return [StreamStats(**stats) for stats in self._raw.streams()]


def objectives(entries: list[dict[str, Any]]) -> list[Objective]:
    """Objectives from what the extension module reports."""
    return [Objective(**entry) for entry in entries]


def added(result: tuple[list[int], list[dict[str, Any]]]) -> tuple[list[int], list[Finding]]:
    """Ids of objectives that were added, and warnings."""
    ids, warnings = result
    return ids, [Finding(**warning) for warning in warnings]


def named(fields: Fields | None) -> list[tuple[str, float | bool | str]] | None:
    """Header fields as the extension module takes them."""
    return None if fields is None else list(fields.items())


class StreamHandle:
    """A stream of messages."""

    __slots__ = ("_is_reset", "_raw", "_spec")

    def __init__(self, stream: raw.Stream) -> None:
        self._is_reset = False
        self._raw = stream
        self._spec = StreamSpec(**stream.spec())

    @property
    def id(self) -> int:
        """Its number in its session, the same at both ends."""
        return self._raw.id

    @property
    def label(self) -> str:
        """Words of its opener."""
        return self._spec.label

    @property
    def spec(self) -> StreamSpec:
        """The part of its specification that both ends know."""
        return self._spec

    @property
    def can_send(self) -> bool:
        """True if this side may send."""
        return self._raw.can_send

    @property
    def can_receive(self) -> bool:
        """True if this side may receive."""
        return self._raw.can_receive

    def _send_array(self, array: ArrayLike, importance: int, fields: Fields | None) -> Any:
        """Begins to send an array."""
        whole = arrays.contiguous(array)
        header = arrays.header(whole)
        return self._raw.send(arrays.memory(whole), importance, header, named(fields))

    def finish(self) -> None:
        """No message follows; those that wait are still delivered."""
        self._raw.finish()

    def reset(self, code: int = 0) -> None:
        """Gives the stream up; what the peer has not read is lost."""
        self._is_reset = True
        self._raw.reset(code)

    def _leave(self, error: BaseException | None) -> bool:
        """Ends what this side sends at the end of a context: true if the delivery is to be awaited."""
        if not self.can_send or self._is_reset:
            return False
        try:
            if error is not None:
                self.reset()
                return False
            self.finish()
        except AnabranchError:
            # It is over. The wait for the delivery reports the cause.
            return error is None
        return True

    def stop(self, code: int = 0) -> None:
        """Asks the peer to send no more."""
        self._raw.stop(code)
