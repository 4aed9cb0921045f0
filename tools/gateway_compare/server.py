"""Server of a comparison, at the far end: downloads, messages and echoes over TCP, MPTCP or UDP.

A request is a line: `GET /BYTES HTTP/1.1` for a download, `messages COUNT BYTES INTERVAL_US`, or `echo`. Over UDP, the same
requests, each a datagram. A message begins with the time at which it was made (CLOCK_MONOTONIC, ns, 64 bits), so a program on
the same machine can tell its age.

server.py ADDRESS PORT [tcp|mptcp [CONTROLLER]]     without a congestion controller, that of the system
"""

import socket
import struct
import sys
import threading
import time

MPTCP = 262
BLOCK = bytes(1 << 20)


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def messages(send, count, size, interval_us):
    """Sends messages at their times, whatever became of those before."""
    padding = bytes(size - 8)
    start = now()
    for index in range(count):
        due = start + index * interval_us * 1000
        wait = due - now()
        if wait > 0:
            time.sleep(wait / 1e9)
        # The time at which it should have been made: waiting for the connection counts as age.
        send(struct.pack(">Q", due) + padding)


def connection(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = peer.recv(1)
        if not byte:
            return
        line += byte
    words = line.split()
    if words[0] == b"GET":
        while not line.endswith(b"\r\n\r\n"):
            line += peer.recv(1)
        left = int(words[1].strip(b"/"))
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n"
        peer.sendall(head.encode())
        while left > 0:
            left -= peer.send(memoryview(BLOCK)[: min(left, len(BLOCK))])
    elif words[0] == b"messages":
        messages(peer.sendall, *map(int, words[1:]))
    elif words[0] == b"echo":
        while data := peer.recv(4096):
            peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
    # Wait for the other end, so that nothing is cut off by a reset.
    peer.settimeout(60)
    while peer.recv(4096):
        pass


def serve_connection(peer, controller):
    with peer:
        if controller:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
        try:
            connection(peer)
        except OSError:
            pass  # the program at the other end has gone


def serve_datagrams(udp):
    while True:
        data, client = udp.recvfrom(65536)
        words = data.split()
        if words and words[0] == b"messages":
            send = lambda message: udp.sendto(message, client)
            threading.Thread(target=messages, args=(send, *map(int, words[1:])), daemon=True).start()
        else:
            udp.sendto(data, client)


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    kind = sys.argv[3] if sys.argv[3:] else "tcp"
    controller = sys.argv[4] if sys.argv[4:] else None
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, port))
    threading.Thread(target=serve_datagrams, args=(udp,), daemon=True).start()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP if kind == "mptcp" else 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if controller:
        # Connections inherit it, and so do all their subflows.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
    listener.bind((address, port))
    listener.listen(128)
    print("ready", flush=True)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(peer, controller), daemon=True).start()


try:
    main()
except KeyboardInterrupt:
    pass
