"""Emulated links between UDP ports of this machine, without privileges: several paths to one node.

A link is described in words, such as ``"rate=8 Mbit/s, delay=20 ms, loss=1 %"``, or by a preset such as ``"lte"``
(``anabranch emulate --help``); ``;`` separates the directions if they differ, and ``rate=trace FILE`` follows a recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from . import _anabranch as raw
from .reports import LinkStats

if TYPE_CHECKING:
    # Of Python 3.11.
    from typing import Self

__all__ = ["Emulator"]


class Emulator:
    """Links that lead to one address. They end with the context, with ``close``, or with the object.

    ::

        with Emulator(there.addresses()[0], {"lte": "rate=5 Mbit/s, delay=40 ms", "wifi": "rate=20 Mbit/s"}) as links:
            async with here.connect(there.id, links.addresses) as session: ...
    """

    __slots__ = ("_addresses", "_raw")

    def __init__(self, target: str, links: Mapping[str, str], *, seed: int = 1) -> None:
        """Starts links by name that lead to ``target``, ``IP:PORT``. The same ``seed`` loses the same packets. Raises ``SpecError`` if
        a description cannot be read, and ``StartError`` if there is no port."""
        started = raw.Emulator(target, list(links.items()), seed)
        self._raw: raw.Emulator | None = started
        self._addresses = dict(started.addresses())

    def _running(self) -> raw.Emulator:
        if self._raw is None:
            raise ValueError("the links were closed")
        return self._raw

    @property
    def addresses(self) -> list[str]:
        """The addresses at which the links begin, in their order: give them to ``connect`` in place of the target."""
        return list(self._addresses.values())

    def address(self, name: str) -> str:
        """The address at which one link begins; ``KeyError`` if there is none of this name."""
        return self._addresses[name]

    def set(self, name: str, link: str) -> None:
        """Changes a link, for packets that enter it from now on."""
        self._running().set(name, link)

    def cut(self, name: str) -> None:
        """Takes a link down in both directions; what waits in it is lost."""
        self._running().set_up(name, False)

    def restore(self, name: str) -> None:
        """Brings a link up again."""
        self._running().set_up(name, True)

    def stats(self, name: str) -> tuple[LinkStats, LinkStats]:
        """Totals of a link: towards the target, and back."""
        forward, backward = self._running().stats(name)
        return LinkStats(**forward), LinkStats(**backward)

    def close(self) -> None:
        """Ends the links; packets in them are lost. A second call does nothing."""
        self._raw = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
