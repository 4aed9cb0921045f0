"""Client of a comparison, at the near end: one program, which prints what it measured as a line of JSON.

client.py download ADDRESS PORT tcp|mptcp BYTES [SECONDS]
client.py messages ADDRESS PORT tcp|mptcp|udp COUNT BYTES INTERVAL_US
client.py keys     ADDRESS PORT tcp|mptcp COUNT INTERVAL_US
client.py media    ADDRESS PORT udp COUNT BYTES INTERVAL_US
client.py sink     ADDRESS PORT udp COUNT
"""

import json
import socket
import struct
import sys
import time

MPTCP = 262
# Patience with a stream of datagrams of which the last were lost, in seconds.
QUIET = 2.0


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def connect(address, port, kind):
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP if kind == "mptcp" else 0)
    peer.connect((address, port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def quantile(values, p):
    """Smallest value that at least the share `p` does not exceed."""
    values = sorted(values)
    return values[max(0, min(len(values) - 1, int(len(values) * p + 0.9999999) - 1))]


def download(address, port, kind, size, seconds=None):
    """Receives what the server has, or for so many seconds."""
    begin = now()
    peer = connect(address, port, kind)
    peer.sendall(f"GET /{size} HTTP/1.1\r\n\r\n".encode())
    received, last, longest = 0, None, 0
    buffer = bytearray(1 << 20)
    while True:
        if seconds is not None:
            peer.settimeout(max(1e-3, seconds - (now() - begin) / 1e9))
        try:
            count = peer.recv_into(buffer)
        except TimeoutError:
            count = 0
        time_now = now()
        is_over = seconds is not None and time_now - begin >= seconds * 1e9
        if last is not None and (count or is_over):
            longest = max(longest, time_now - last)
        if count:
            last = time_now
            received += count
        if is_over or not count:
            break
    # The head of the answer counts as data; it is some hundred bytes.
    return {"bytes": received, "elapsed_s": (now() - begin) / 1e9, "longest_gap_ms": longest / 1e6}


def messages(address, port, kind, count, size, interval_us):
    request = f"messages {count} {size} {interval_us}\n".encode()
    ages = []
    if kind == "udp":
        peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        peer.connect((address, port))
        peer.send(request)
        peer.settimeout(QUIET + 3)
        try:
            while len(ages) < count:
                data = peer.recv(65536)
                ages.append(now() - struct.unpack(">Q", data[:8])[0])
                peer.settimeout(QUIET)
        except TimeoutError:
            pass
    else:
        peer = connect(address, port, kind)
        peer.sendall(request)
        for _ in range(count):
            data = peer.recv(size, socket.MSG_WAITALL)
            if len(data) < size:
                break
            ages.append(now() - struct.unpack(">Q", data[:8])[0])
    return {"sent": count, "ages_ms": [age / 1e6 for age in ages]}


def keys(address, port, kind, count, interval_us):
    peer = connect(address, port, kind)
    peer.sendall(b"echo\n")
    times = []
    for _ in range(count):
        begin = now()
        peer.sendall(bytes(48))
        if len(peer.recv(48, socket.MSG_WAITALL)) < 48:
            break
        times.append((now() - begin) / 1e6)
        time.sleep(interval_us / 1e6)
    return {"round_trips_ms": times}


def media(address, port, kind, count, size, interval_us):
    """Sends datagrams with RTP's header (RFC 3550), and behind it the time at which each should have been made."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.connect((address, port))
    start, padding = now(), bytes(size - 20)
    for index in range(count):
        due = start + index * interval_us * 1000
        wait = due - now()
        if wait > 0:
            time.sleep(wait / 1e9)
        header = struct.pack(">BBHII", 0x80, 33, index & 0xFFFF, index * interval_us * 9 // 100 & 0xFFFFFFFF, 1)
        peer.send(header + struct.pack(">Q", due) + padding)
    return {"sent": count}


def sink(address, port, kind, count):
    """Receives the datagrams of `media`, each once."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    peer.bind((address, port))
    peer.settimeout(30)
    ages = {}
    try:
        while len(ages) < count:
            data = peer.recv(65536)
            due = struct.unpack(">Q", data[12:20])[0]
            ages.setdefault(due, now() - due)
            peer.settimeout(QUIET + 3)
    except TimeoutError:
        pass
    return {"ages_ms": [age / 1e6 for age in ages.values()]}


def main():
    roles = {"download": download, "messages": messages, "keys": keys, "media": media, "sink": sink}
    role, address, port, kind, *rest = sys.argv[1:]
    figures = roles[role](address, int(port), kind, *map(int, rest))
    for name in ("ages_ms", "round_trips_ms"):
        if values := figures.pop(name, None):
            figures[f"{name}_p50"], figures[f"{name}_p99"] = quantile(values, 0.5), quantile(values, 0.99)
            figures[f"{name}_count"] = len(values)
            figures[f"{name}_late_300"] = sum(value > 300 for value in values)
    print(json.dumps(figures))


main()
