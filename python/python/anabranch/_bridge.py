"""Operations of the extension module awaited in event loops, and in threads."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from ._anabranch import Bridge, Operation


class _Loop:
    """The bridge of one event loop: tasks that wait, by token."""

    __slots__ = ("_next", "_waiting", "raw")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.raw = Bridge()
        self._next = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        loop.add_reader(self.raw.fileno(), self._wake)

    def wait(self, future: asyncio.Future[None]) -> int:
        """A token with which ``future`` is woken."""
        self._next += 1
        self._waiting[self._next] = future
        return self._next

    def forget(self, token: int) -> None:
        self._waiting.pop(token, None)

    def _wake(self) -> None:
        for token in self.raw.take():
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()


async def finished(started: Any) -> Any:
    """The result of an operation; what is none is the result itself."""
    if type(started) is not Operation:
        return started
    loop = asyncio.get_running_loop()
    bridge = _loops.get(loop)
    if bridge is None:
        bridge = _loops[loop] = _Loop(loop)
    try:
        while True:
            future: asyncio.Future[None] = loop.create_future()
            token = bridge.wait(future)
            try:
                if started.aim(bridge.raw, token):
                    await future
            finally:
                bridge.forget(token)
            # Nothing is awaited after this: a result is handed out, whatever becomes of the task.
            result = started.poll()
            if result is not started:
                return result
    except BaseException:
        started.cancel()
        raise


def waited(started: Any, timeout: float | None = None) -> Any:
    """The result of an operation, awaited in this thread."""
    if type(started) is not Operation:
        return started
    try:
        return started.wait(timeout)
    except BaseException:
        started.cancel()
        raise


class Turns:
    """Lets other tasks of the loop run now and then, in loops whose results are ready at once."""

    __slots__ = ("_left",)

    #: Results between two turns of the loop.
    _EVERY = 64

    def __init__(self) -> None:
        self._left = self._EVERY

    async def take(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = self._EVERY
            await asyncio.sleep(0)
