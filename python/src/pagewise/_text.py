"""How sizes are written."""

from __future__ import annotations


def size(count: float) -> str:
    """1234567 as "1.23 MB", in powers of 1000 as the command does."""
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    scaled, power = float(count), 0
    while abs(scaled) >= 999.5 and power < len(units) - 1:
        scaled /= 1000
        power += 1
    digits = 0 if power == 0 or abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
    return f"{scaled:.{digits}f} {units[power]}"


def html_table(title: str, rows: list[tuple[str, str]]) -> str:
    """Two columns, for a notebook."""
    from html import escape

    body = "".join(f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"
