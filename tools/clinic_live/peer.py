"""Peer of a comparison: sends contents of an ambulance over connections or datagrams, or receives them and prints their ages.

peer.py receive mptcp|udp PORT PLAN
peer.py send    mptcp|udp ADDRESS PORT PLAN

PLAN has the length of the run in seconds, the sizes of the pictures, and the congestion controller. Over connections, each stream has its own, and begins with its
name in a line; an ADU is its number (64 bits), the time at which it was made (CLOCK_MONOTONIC, ns, 64 bits), its length (32 bits), and as
many bytes. What is over when its turn comes is not sent. As datagrams, only pictures are sent, in parts, each with number, time, part and
count of parts.
"""

import json
import pathlib
import socket
import struct
import sys
import threading
import time

from content_times import BEAT_S, FPS, LIFETIMES_S, PACKET_S, RECORD_BYTES, SPEECH_BYTES

MPTCP = 262
HEAD = struct.Struct(">QQI")
PART = struct.Struct(">QQHH")
PART_BYTES = 1316 - PART.size
# Unsent bytes that the kernel may hold of a stream: what waits there can no longer be left out.
UNSENT_BYTES = 16_384
NOTSENT_LOWAT = 25
# Patience of a receiver with a stream of datagrams that has ended, in seconds.
QUIET_S = 5.0
# Seconds after the last ADU until which connections may go on: what comes later is over.
AFTER_S = LIFETIMES_S["ekg"] + 5


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def adus(plan):
    """For each stream: time between two ADUs in seconds, and their sizes."""
    count = lambda period: round(plan["seconds"] / period)
    return {
        "video": (1 / FPS, [size for size, _ in plan["pictures"]]),
        "speech": (PACKET_S, [SPEECH_BYTES] * count(PACKET_S)),
        "ekg": (BEAT_S, [RECORD_BYTES] * count(BEAT_S)),
    }


def paced(begin, period, sizes):
    """Number, time and size of each ADU, at its time or later."""
    for number, size in enumerate(sizes):
        made = begin + round(number * period * 1e9)
        wait = made - now()
        if wait > 0:
            time.sleep(wait / 1e9)
        yield number, made, size


def send_stream(peer, name, begin, period, sizes):
    for number, made, size in paced(begin, period, sizes):
        if now() - made < LIFETIMES_S[name] * 1e9:
            peer.sendall(HEAD.pack(number, made, size) + bytes(size))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)


def send_connections(address, port, plan):
    threads = []
    streams = adus(plan)
    peers = {}
    for name in streams:
        peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
        # Subflows inherit it.
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, plan["controller"].encode())
        peer.connect((address, port))
        for level, option, value in ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.IPPROTO_TCP, NOTSENT_LOWAT, UNSENT_BYTES)):
            try:
                peer.setsockopt(level, option, value)
            except OSError:
                pass  # this kernel's MPTCP lacks it
        peer.sendall(f"{name}\n".encode())
        peers[name] = peer
    begin = now()
    for name, (period, sizes) in streams.items():
        thread = threading.Thread(target=send_stream, args=(peers[name], name, begin, period, sizes), daemon=True)
        thread.start()
        threads.append(thread)
    join(threads, plan)


def join(threads, plan):
    """Waits until all have ended, or nothing that comes is of use."""
    until = time.monotonic() + plan["seconds"] + AFTER_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def send_datagrams(address, port, plan):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.connect((address, port))
    period, sizes = adus(plan)["video"]
    for number, made, size in paced(now(), period, sizes):
        parts = -(-size // PART_BYTES)
        for part in range(parts):
            bytes_left = min(PART_BYTES, size - part * PART_BYTES)
            peer.send(PART.pack(number, made, part, parts) + bytes(bytes_left))


def exactly(peer, count):
    data = bytearray()
    while len(data) < count:
        piece = peer.recv(min(65536, count - len(data)))
        if not piece:
            return None
        data += piece
    return bytes(data)


def receive_stream(peer, ages):
    name = bytearray()
    while not name.endswith(b"\n"):
        name += exactly(peer, 1) or b"\n"
    own = ages.setdefault(name.decode().strip(), {})
    while head := exactly(peer, HEAD.size):
        number, made, size = HEAD.unpack(head)
        if exactly(peer, size) is None:
            break
        own[number] = (now() - made) / 1e6
    peer.close()


def receive_connections(port, plan):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(8)
    print("ready", flush=True)
    ages, threads = {}, []
    for _ in range(3):
        peer, _ = listener.accept()
        thread = threading.Thread(target=receive_stream, args=(peer, ages), daemon=True)
        thread.start()
        threads.append(thread)
    join(threads, plan)
    return {name: dict(own) for name, own in ages.items()}


def receive_datagrams(port, count):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    peer.bind(("127.0.0.1", port))
    print("ready", flush=True)
    ages, parts = {}, {}
    peer.settimeout(60)
    try:
        while len(ages) < count:
            data = peer.recv(65536)
            number, made, part, all_parts = PART.unpack(data[: PART.size])
            own = parts.setdefault(number, set())
            own.add(part)
            if len(own) == all_parts:
                ages.setdefault(number, (now() - made) / 1e6)
            peer.settimeout(QUIET_S)
    except TimeoutError:
        pass
    return {"video": ages}


def main():
    role, kind, *rest = sys.argv[1:]
    plan = json.loads(pathlib.Path(rest[-1]).read_text())
    if role == "send":
        send = send_connections if kind == "mptcp" else send_datagrams
        send(rest[0], int(rest[1]), plan)
        return
    ages = receive_connections(int(rest[0]), plan) if kind == "mptcp" else receive_datagrams(int(rest[0]), len(plan["pictures"]))
    print(json.dumps(ages))


main()
