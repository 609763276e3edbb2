"""Pictures as SVG. Without matplotlib (Debian: python3-matplotlib) a page has its tables alone, and says so."""

import os

try:
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    # The same figures give the same file: no random names, no date.
    matplotlib.rcParams.update({"svg.hashsalt": "pagewise", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False,
                                "axes.spines.right": False, "axes.axisbelow": True})
except ImportError:
    matplotlib = plt = None

GREY, BLUE, ORANGE, GREEN, PURPLE, RED = "#9a9a9a", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00"
WITHOUT = "(No picture: matplotlib is not installed.)"


def in_two_columns(count, height):
    """(figure, its axes), so many small pictures of this height; an odd place stays empty."""
    rows = (count + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(9, height * rows), squeeze=False)
    for place in axes.flat[count:]:
        place.axis("off")
    return figure, axes


def save(figure, folder, name, title):
    """Writes folder/name.svg; returns the block of a page in the folder above that shows it."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".svg")
    figure.savefig(path + ".partial", format="svg", bbox_inches="tight", metadata={"Date": None, "Title": title})
    plt.close(figure)
    # Trailing spaces are all that git would find to say about it.
    with open(path + ".partial", encoding="utf-8") as file:
        text = "\n".join(line.rstrip() for line in file.read().splitlines()) + "\n"
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)
    return f"![{title}]({os.path.basename(folder)}/{name}.svg)"
