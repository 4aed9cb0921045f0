"""Nodes of this process, which tell their peers when the interpreter ends."""

from __future__ import annotations

import atexit
import weakref

from ._anabranch import Node as RawNode
from ._bridge import waited
from .errors import AnabranchError

#: Longest wait for one node, in seconds; it takes about one at most.
_SHUTDOWN_S = 2.0

_running: weakref.WeakSet[RawNode] = weakref.WeakSet()


def started(node: RawNode) -> RawNode:
    """Notes a node that was started."""
    _running.add(node)
    return node


@atexit.register
def _shut_down() -> None:
    nodes = list(_running)
    for node in nodes:
        try:
            waited(node.shutdown(), _SHUTDOWN_S)
        except (AnabranchError, TimeoutError):
            # Of another process, or its peers do not answer: they notice the silence.
            continue
