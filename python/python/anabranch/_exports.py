"""Connections to the exported directories of peers, shared by the file systems of a process."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass
from typing import Any

from . import _anabranch as raw
from ._bridge import finished, waited
from ._handles import NodeHandle
from .errors import Closed

#: Key of a node, as it can be compared: a seed, or a file.
KeyText = bytes | str | None


@dataclass(frozen=True, slots=True)
class Origin:
    """The node over which peers are reached: the running one at a socket, or one of this process."""

    #: Socket of the running node; ``None``: that of this user.
    local: str | None = None
    #: Ticket of the peer, for a node of this process; ``None``: a running node.
    ticket: str | None = None
    #: Key of the node of this process.
    key: KeyText = None
    #: Its local addresses.
    bind: tuple[str, ...] | None = None


class Connection:
    """The exports of one peer, opened again when the session is over. Its methods are for any thread and event loop."""

    def __init__(self, origin: Origin, peer: str) -> None:
        self._origin = origin
        self._peer = peer
        self._lock = threading.Lock()
        self._exports: raw.Exports | None = None
        #: What must live as long as the exports.
        self._handles: list[Any] = []

    def _open(self, stale: raw.Exports | None) -> raw.Exports:
        """Opens the exports, unless another thread has done so since ``stale`` failed."""
        with self._lock:
            if self._exports is not None and self._exports is not stale:
                return self._exports
            origin = self._origin
            node: raw.Client | raw.Node
            addresses: list[str]
            if origin.ticket is None:
                node = waited(raw.Client.attach(origin.local, "fsspec"))
                peer, addresses = self._peer, []
            else:
                node = _node(origin)
                peer, addresses = raw.parse_ticket(origin.ticket)
            session = waited(node.connect(peer, addresses))
            self._exports = waited(session.exports())
            self._handles = [node, session]
            return self._exports

    async def _opened(self, stale: raw.Exports | None = None) -> raw.Exports:
        exports = self._exports
        if exports is not None and exports is not stale:
            return exports
        # A thread, because a lock of threads is waited for, and a session may take seconds.
        return await asyncio.to_thread(self._open, stale)

    async def call(self, name: str, *arguments: Any) -> Any:
        """The answer to a request; it is made once more if the session is over."""
        exports = await self._opened()
        try:
            return await finished(getattr(exports, name)(*arguments))
        except Closed:
            exports = await self._opened(exports)
            return await finished(getattr(exports, name)(*arguments))


_connections: dict[tuple[int, Origin, str], Connection] = {}
_nodes: dict[tuple[int, KeyText, tuple[str, ...] | None], NodeHandle] = {}
_registry = threading.Lock()


def connection(origin: Origin, peer: str) -> Connection:
    """The connection of this process to a peer. A forked child has its own."""
    key = (os.getpid(), origin, peer)
    with _registry:
        if key not in _connections:
            _connections[key] = Connection(origin, peer)
        return _connections[key]


def _node(origin: Origin) -> raw.Node:
    """The node of this process with this key."""
    key = (os.getpid(), origin.key, origin.bind)
    with _registry:
        if key not in _nodes:
            _nodes[key] = NodeHandle(key=origin.key, bind=origin.bind)
        return _nodes[key]._raw


def _after_fork() -> None:
    # The lock may be held by a thread that the child does not have. What the parent's process has made is inert here.
    global _registry
    _registry = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
