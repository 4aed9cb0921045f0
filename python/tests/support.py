"""Pairs of nodes on loopback, and programs of tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anabranch
from anabranch import sync

LOOPBACK = ["127.0.0.1:0"]
#: Ends a test that hangs, in seconds; none needs a tenth of it.
LIMIT = 60


@asynccontextmanager
async def timeout(limit_s: float) -> AsyncIterator[None]:
    """Fails when the body takes longer: ``asyncio.timeout``, which Python 3.10 does not have."""
    task = asyncio.current_task()
    assert task is not None
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(limit_s, end)
    try:
        yield
    except asyncio.CancelledError:
        if is_over:
            raise TimeoutError(f"nothing came of it in {limit_s} s") from None
        raise
    finally:
        timer.cancel()


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[anabranch.Session, anabranch.Session]]:
    """Two nodes of this process, and both ends of a session between them."""
    async with anabranch.Node(bind=LOOPBACK) as here:
        async with anabranch.Node(bind=LOOPBACK, allow=[here.id]) as there, here.connect(there.ticket()) as outgoing:
            incoming = await there.accept()
            assert incoming is not None
            yield outgoing, incoming


@contextmanager
def sync_pair() -> Iterator[tuple[sync.Session, sync.Session]]:
    """The same without an event loop."""
    with sync.Node(bind=LOOPBACK) as here, sync.Node(bind=LOOPBACK, allow=[here.id]) as there:
        with here.connect(there.ticket(), timeout=LIMIT) as outgoing:
            incoming = there.accept(timeout=LIMIT)
            assert incoming is not None
            yield outgoing, incoming


def program(text: str) -> subprocess.Popen[str]:
    """Starts a program in development mode; its output is to be read by ``communicate``."""
    # A shell's background jobs, such as these tests may be, ignore interrupts, and so do their children.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-X", "dev", "-c", heed + textwrap.dedent(text)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(text: str) -> tuple[int, str, str]:
    """Runs a program; returns its exit code, output and errors."""
    running = program(text)
    try:
        out, err = running.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        running.kill()
        out, err = running.communicate()
        raise AssertionError(f"the program hangs; it wrote {out!r} and {err!r}") from None
    return running.returncode, out, err


#: Beginning of programs: both ends of a session.
PAIR = """
from anabranch import sync
here = sync.Node(bind=["127.0.0.1:0"])
there = sync.Node(bind=["127.0.0.1:0"], allow=[here.id])
outgoing = here.connect(there.ticket(), timeout=30)
incoming = there.accept(timeout=30)
"""
