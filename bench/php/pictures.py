"""The paper's figures 1, 5, 6, 8 and 9 from our figures; without matplotlib a page has its tables alone."""

from plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, WITHOUT, matplotlib, plt, save

COLOURS = {"native": GREY, "native, huge pages": "#cfcfcf", "region": ORANGE, "region, huge pages": "#f5d38a", "transaction": BLUE,
           "transaction, huge pages": "#8fc3e3", "jemalloc": RED, "mimalloc": GREEN, "tcmalloc": PURPLE, "pass-through": "#555555"}


def bars(folder, name, title, label, names, series, base=None):
    """A group of bars for each application; `series`: configuration -> a value for each name, or None."""
    series = {configuration: values for configuration, values in series.items() if any(value is not None for value in values)}
    if not matplotlib:
        return WITHOUT
    if not series:
        return None
    figure, place = plt.subplots(figsize=(9, 2.6))
    width = 0.85 / len(series)
    for number, (configuration, values) in enumerate(series.items()):
        at = [group + (number - (len(series) - 1) / 2) * width for group, value in enumerate(values) if value is not None]
        place.bar(at, [value for value in values if value is not None], width, label=configuration, color=COLOURS.get(configuration))
    if base is not None:
        place.axhline(base, color="black", linewidth=0.6)
    place.set_xticks(range(len(names)), names)
    place.set_ylabel(label)
    place.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    return save(figure, folder, name, title)


def breakdown(folder, name, title, names, parts):
    """Two parts on top of each other; `parts`: configuration -> (memory operations, all else) for each name, or None."""
    parts = {configuration: values for configuration, values in parts.items() if any(values)}
    if not matplotlib:
        return WITHOUT
    if not parts:
        return None
    figure, place = plt.subplots(figsize=(9, 2.6))
    width = 0.85 / len(parts)
    for number, (configuration, values) in enumerate(parts.items()):
        for group, value in enumerate(values):
            if value:
                at = group + (number - (len(parts) - 1) / 2) * width
                place.bar(at, value[1], width * 0.92, color="#d9d9d9")
                place.bar(at, value[0], width * 0.92, bottom=value[1], color=COLOURS.get(configuration))
    for configuration in parts:
        place.bar(0, 0, color=COLOURS.get(configuration), label=configuration)
    place.set_xticks(range(len(names)), names)
    place.set_ylabel("instructions, of native's")
    place.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, title="memory operations (below: all else)")
    return save(figure, folder, name, title)


def curves(folder, name, title, cores, lines):
    """Requests a second over cores; `lines`: configuration -> values of the model."""
    if not matplotlib:
        return WITHOUT
    if not lines:
        return None
    figure, place = plt.subplots(figsize=(5, 2.8))
    for configuration, values in lines.items():
        place.plot(cores, values, color=COLOURS.get(configuration), linewidth=1.2, label=f"{configuration}, model")
    place.set_xlabel("cores")
    place.set_ylabel("requests a second")
    place.set_ylim(bottom=0)
    place.legend(frameon=False)
    return save(figure, folder, name, title)
