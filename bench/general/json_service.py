"""Answers with 100 KB of JSON, encoded and decoded by two threads. Prints what loops.c prints."""

import json
import threading

from told import tell

ANSWERS = 150


def answer(number: int) -> int:
    """Encodes records, and reads them back as a client does."""
    records = [{"id": number * 1000 + at, "name": f"record {at}", "tags": ["a", "b", str(at)], "value": at / 7} for at in range(1200)]
    text = json.dumps(records).encode()
    return len(json.loads(text))


def serve(first: int) -> None:
    """One thread's share."""
    for number in range(first, first + ANSWERS):
        answer(number)


def main() -> None:
    """Two threads."""
    threads = [threading.Thread(target=serve, args=(first,)) for first in (0, ANSWERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    tell()


main()
