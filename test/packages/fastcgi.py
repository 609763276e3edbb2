#!/usr/bin/env python3
"""fastcgi.py PORT SCRIPT: ask php-fpm at 127.0.0.1 for a page, and print what it answers."""

import socket
import struct
import sys

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = range(1, 8)


def record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def parameters(values: dict[str, str]) -> bytes:
    return b"".join(struct.pack(">BB", len(name), len(value)) + name.encode() + value.encode() for name, value in values.items())


def main() -> None:
    port, script = int(sys.argv[1]), sys.argv[2]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as server:
        server.sendall(record(BEGIN, struct.pack(">HB5x", 1, 0)) + record(PARAMS, parameters({"REQUEST_METHOD": "GET", "SCRIPT_FILENAME": script}))
                       + record(PARAMS, b"") + record(STDIN, b""))
        with server.makefile("rb") as answer:
            while header := answer.read(8):
                _, kind, _, length, padding = struct.unpack(">BBHHBx", header)
                content = answer.read(length)
                answer.read(padding)
                if kind == END:
                    break
                if kind in (STDOUT, STDERR):
                    sys.stdout.write(content.decode(errors="replace"))


if __name__ == "__main__":
    main()
