"""Anabranch: data streams over several unreliable network paths at once, with promises.

A *node* has an identity and addresses; a *session* joins two nodes over every path between them; a *stream* carries messages
(buffers of 1 byte to 16 MiB) as its specification demands: in order or not, before a deadline, with a promised rate. The
classes here are for ``asyncio``; those of :mod:`anabranch.sync` do the same without it.
"""

from . import aio, arrays, emulation, errors, lab, objectives, reports, spec, stats, sync
from ._anabranch import Message
from ._handles import ANYONE
from .aio import Client, Node, Session, Stream, attach, connect
from .emulation import Emulator
from .errors import (
    AnabranchError,
    ArrayError,
    AttachError,
    Closed,
    ConnectError,
    ExportError,
    Finding,
    ForkedError,
    HostNotFound,
    LabError,
    NoRoute,
    ObjectiveError,
    Offer,
    Refused,
    Rejected,
    SendError,
    SpecError,
    StartError,
    StatsError,
    StreamReset,
    StreamStopped,
    TicketError,
    TransferError,
    Unreachable,
)
from .reports import Explanation, Grant, Objective, Path, SessionStats, StreamStats, Transferred
from .spec import Late, Packets, Rate, StreamOptions

__all__ = [
    "ANYONE",
    "AnabranchError",
    "ArrayError",
    "AttachError",
    "Client",
    "Closed",
    "ConnectError",
    "Emulator",
    "Explanation",
    "ExportError",
    "Finding",
    "ForkedError",
    "Grant",
    "HostNotFound",
    "LabError",
    "Late",
    "Message",
    "NoRoute",
    "Node",
    "Objective",
    "ObjectiveError",
    "Offer",
    "Packets",
    "Path",
    "Rate",
    "Refused",
    "Rejected",
    "SendError",
    "Session",
    "SessionStats",
    "SpecError",
    "StartError",
    "StatsError",
    "Stream",
    "StreamOptions",
    "StreamReset",
    "StreamStats",
    "StreamStopped",
    "TicketError",
    "TransferError",
    "Transferred",
    "Unreachable",
    "aio",
    "arrays",
    "attach",
    "connect",
    "emulation",
    "errors",
    "lab",
    "objectives",
    "reports",
    "spec",
    "stats",
    "sync",
]
