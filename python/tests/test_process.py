"""Interrupts, forks, and interpreters that end, in programs of their own."""

from __future__ import annotations

import ast
import os
import re
import signal
import time
import unittest
from pathlib import Path

from .support import LIMIT, PAIR, program, run


class Interrupts(unittest.TestCase):
    def check(self, text: str) -> None:
        running = program(text)
        try:
            assert running.stdout is not None
            self.assertEqual(running.stdout.readline(), "waiting\n", "the program did not start")
            # It says so just before it waits.
            time.sleep(0.3)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=LIMIT)
        finally:
            running.kill()
            running.communicate()
        self.assertEqual(running.returncode, 0, err)
        self.assertRegex(out, r"interrupted\n")
        self.assertNotIn("Traceback", err)

    def test_ctrl_c_ends_a_wait(self) -> None:
        self.check(PAIR + """
stream = outgoing.open("x"); stream.send(b"x")
reader = incoming.accept(timeout=30); reader.receive(timeout=30)
print("waiting", flush=True)
try:
    reader.receive()
except KeyboardInterrupt:
    print("interrupted")
stream.send(b"after")
assert bytes(reader.receive(timeout=30)) == b"after"
""")

    def test_ctrl_c_ends_a_loop(self) -> None:
        self.check("""
import asyncio, anabranch
async def main():
    async with anabranch.Node(bind=["127.0.0.1:0"]) as node:
        print("waiting", flush=True)
        await node.accept()
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
""")

    def test_a_handler_runs_within_a_fifth_of_a_second(self) -> None:
        """The time between the signal and its handler, as the handler measures it, of three the least: the machine may be busy."""
        code, out, err = run(PAIR + """
import os, signal, threading, time
reader = outgoing.open("x", duplex=True)
took = []
for _ in range(3):
    def interrupt():
        time.sleep(0.2)
        global sent
        sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt); thread.start()
    try:
        reader.receive()
    except KeyboardInterrupt:
        took.append(time.monotonic() - sent)
    thread.join()
print(min(took))
""")
        self.assertEqual(code, 0, err)
        self.assertLess(float(out), 0.2)


class Forks(unittest.TestCase):
    def test_a_child_gets_an_error_and_may_start_its_own_node(self) -> None:
        code, out, err = run(PAIR + """
import os, sys, anabranch
stream = outgoing.open("x"); stream.send(b"x")
reader = incoming.accept(timeout=30); reader.receive(timeout=30)
child = os.fork()
if child == 0:
    for use in (lambda: stream.send(b"y"), lambda: reader.receive(), lambda: here.ticket(), stream.finish,
                lambda: here.connect(there.ticket()), outgoing.close, here.shutdown):
        try:
            use()
            os._exit(3)
        except anabranch.ForkedError as error:
            assert "forked" in str(error)
    del stream, reader, outgoing, incoming, here, there
    a = sync.Node(bind=["127.0.0.1:0"])
    with sync.Node(bind=["127.0.0.1:0"], allow=[a.id]) as b, a.connect(b.ticket(), timeout=30) as session:
        with session.open("child") as stream:
            stream.send(b"from the child")
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
stream.send(b"after")
assert bytes(reader.receive(timeout=30)) == b"after"
print("parent")
""")
        self.assertEqual((code, out), (0, "parent\n"), err)

    def test_forks_while_messages_flow(self) -> None:
        """Children end, whichever lock another thread held when they were made."""
        code, out, err = run(PAIR + """
import os, threading
def write():
    with outgoing.open("much") as stream:
        for _ in range(3000):
            stream.send(bytes(5000))
count = 0
def read():
    global count
    for _ in incoming.accept(timeout=30):
        count += 1
threads = [threading.Thread(target=write), threading.Thread(target=read)]
for thread in threads: thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        del outgoing, incoming, here, there
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
for thread in threads: thread.join()
print(count)
""")
        self.assertEqual((code, out), (0, "3000\n"), err)


class Ends(unittest.TestCase):
    def test_an_interpreter_ends_while_streams_are_open(self) -> None:
        code, out, err = run(PAIR + """
import threading
stream = outgoing.open("open")
stream.send(b"x")
reader = incoming.accept(timeout=30)
reader.receive(timeout=30)
# It waits for ever, in a thread that the interpreter does not wait for.
threading.Thread(target=reader.receive, daemon=True).start()
outgoing.open("unsent", duplex=True)
print("end")
""")
        self.assertEqual((code, out), (0, "end\n"), err)
        self.assertNotIn("Error", err)

    def test_an_interpreter_ends_slowly_beside_threads_that_wait(self) -> None:
        """Threads whose waits do not end with the nodes meet an interpreter that takes none back."""
        code, out, err = run(PAIR + """
import atexit, sys, threading, time
import anabranch._nodes
atexit.unregister(anabranch._nodes._shut_down)
stream = outgoing.open("open")
stream.send(b"x")
reader = incoming.accept(timeout=30)
reader.receive(timeout=30)
for _ in range(4):
    threading.Thread(target=here.accept, daemon=True).start()
class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)
slow = Slow()
print("end", flush=True)
""")
        self.assertEqual((code, out), (0, "end\n"), err)

    def test_a_loop_ends_while_tasks_wait(self) -> None:
        code, out, err = run("""
import asyncio, anabranch
async def main():
    here = anabranch.Node(bind=["127.0.0.1:0"])
    there = anabranch.Node(bind=["127.0.0.1:0"], allow=[here.id])
    session = await here.open_session(there.ticket())
    stream = await session.open("open", duplex=True)
    asyncio.create_task(stream.receive())
    asyncio.create_task(there.accept())
    asyncio.create_task(here.accept())
    await asyncio.sleep(0.1)
    print("end")
asyncio.run(main())
""")
        self.assertEqual((code, out), (0, "end\n"), err)
        self.assertNotIn("Error", err)

    def test_what_was_delivered_is_there_after_the_sender_ended(self) -> None:
        import anabranch

        node = anabranch.sync.Node(bind=["127.0.0.1:0"], allow=anabranch.ANYONE)
        sending = program(f"""
from anabranch import sync
import os
with sync.connect({node.ticket()!r}, bind=["127.0.0.1:0"]) as session:
    stream = session.open("last words")
    for number in range(100):
        stream.send(b"%d" % number)
    stream.finish()
    stream.delivered(timeout=30)
    os._exit(0)
""")
        with node:
            session = node.accept(LIMIT)
            assert session is not None
            reader = session.accept(LIMIT)
            out, err = sending.communicate(timeout=LIMIT)
            self.assertEqual((sending.returncode, out), (0, ""), err)
            self.assertEqual([bytes(message) for message in reader], [b"%d" % number for number in range(100)])

    def test_the_peer_is_told_when_an_interpreter_ends(self) -> None:
        import anabranch

        node = anabranch.sync.Node(bind=["127.0.0.1:0"], allow=anabranch.ANYONE)
        sending = program(f"""
import threading
from anabranch import sync
node = sync.Node(bind=["127.0.0.1:0"])
session = node.connect({node.ticket()!r}, timeout=30)
# Its wait keeps the session, so that this does not end with its variable.
threading.Thread(target=session.closed, daemon=True).start()
""")
        with node:
            session = node.accept(LIMIT)
            assert session is not None
            self.assertIn("disconnected", session.closed(LIMIT))
            sending.communicate(timeout=LIMIT)


class Manual(unittest.TestCase):
    def test_the_whole_program_of_the_manual_runs(self) -> None:
        manual = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
        [program] = [block for block in blocks if "asyncio.run(main())" in block]
        self.assertEqual(run(program), (0, "b'21.5'\n", ""))
        for block in blocks:
            compile(block, "docs/python.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


class Callbacks(unittest.TestCase):
    def test_an_exception_in_a_callback_of_the_loop_stops_nothing(self) -> None:
        code, out, err = run("""
import asyncio, anabranch
async def main():
    loop = asyncio.get_running_loop()
    seen = []
    loop.set_exception_handler(lambda loop, context: seen.append(context["exception"]))
    here = anabranch.Node(bind=["127.0.0.1:0"])
    async with anabranch.Node(bind=["127.0.0.1:0"], allow=[here.id]) as there, here.connect(there.ticket()) as session:
        incoming = await there.accept()
        stream = await session.open("x")
        accepting = asyncio.create_task(incoming.accept())
        accepting.add_done_callback(lambda _: 1 / 0)
        await stream.send(b"x")
        message = await (await accepting).receive()
        assert bytes(message) == b"x"
    assert [type(error) for error in seen] == [ZeroDivisionError], seen
    print("end")
asyncio.run(main())
""")
        self.assertEqual((code, out), (0, "end\n"), err)


if not hasattr(os, "fork"):
    del Forks
