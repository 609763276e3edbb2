"""12,000 lists that grow in turn, each to 2,500 numbers. Prints what loops.c prints."""

from told import tell

COUNT, LENGTH = 12_000, 2_500


def main() -> None:
    """Grows them by 25 numbers a turn."""
    lists: list[list[int]] = [[] for _ in range(COUNT)]
    for start in range(0, LENGTH, 25):
        for one in lists:
            one.extend(range(start, start + 25))
    tell()


main()
