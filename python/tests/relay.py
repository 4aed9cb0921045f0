"""A UDP relay that loses, delays, repeats and cuts, in a thread of its own."""

from __future__ import annotations

import heapq
import random
import select
import socket
import threading
import time
from types import TracebackType

Address = tuple[str, int]


class Relay:
    """Forwards datagrams to a target, and answers back to their senders.

    Which datagrams suffer follows from ``seed`` and their number; which number a datagram has depends on the timing of both ends.
    """

    def __init__(self, target: str, seed: int) -> None:
        host, _, port = target.rpartition(":")
        self._target: Address = (host, int(port))
        self._random = random.Random(seed)
        self._inner: dict[Address, socket.socket] = {}
        self._outer = self._open()
        self._late: list[tuple[float, int, socket.socket, bytes, Address]] = []
        self._count = 0
        #: Shares of datagrams lost, repeated, and delayed by up to ``delay_s``.
        self.loss = self.repeat = self.late = 0.0
        self.delay_s = 0.02
        self.is_cut = False
        #: Datagrams that it has lost.
        self.dropped = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="relay")

    @staticmethod
    def _open() -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        opened.bind(("127.0.0.1", 0))
        opened.setblocking(False)
        return opened

    @property
    def address(self) -> str:
        host, port = self._outer.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._thread.join()
        for opened in (self._outer, *self._inner.values()):
            opened.close()

    def _run(self) -> None:
        while not self._is_over:
            ready, _, _ = select.select([self._outer, *self._inner.values()], [], [], self._rest())
            for source in ready:
                self._take(source)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, outgoing, data, to = heapq.heappop(self._late)
                self._send(outgoing, data, to)

    def _rest(self) -> float:
        if not self._late:
            return 0.02
        return min(0.02, max(0.0, self._late[0][0] - time.monotonic()))

    def _take(self, source: socket.socket) -> None:
        for _ in range(64):
            try:
                data, sender = source.recvfrom(65_536)
            except OSError:
                # Nothing more, or the target is gone.
                return
            if source is self._outer:
                outgoing = self._inner.get(sender)
                if outgoing is None:
                    outgoing = self._inner[sender] = self._open()
                self._treat(outgoing, data, self._target)
            else:
                back = next(sender for sender, inner in self._inner.items() if inner is source)
                self._treat(self._outer, data, back)

    def _treat(self, outgoing: socket.socket, data: bytes, to: Address) -> None:
        lost, repeated, late, delay = (self._random.random() for _ in range(4))
        if self.is_cut or lost < self.loss:
            self.dropped += 1
            return
        for _ in range(2 if repeated < self.repeat else 1):
            self._count += 1
            if late < self.late:
                heapq.heappush(self._late, (time.monotonic() + delay * self.delay_s, self._count, outgoing, data, to))
            else:
                self._send(outgoing, data, to)

    @staticmethod
    def _send(outgoing: socket.socket, data: bytes, to: Address) -> None:
        try:
            outgoing.sendto(data, to)
        except OSError:
            # A full buffer loses it, like a network.
            return
