"use strict";
// Draws the tree of calls as a flame graph, the outermost call on top: kinds of bytes to choose from, search, and arrows to
// go from call to call.
(() => {
  const { kinds, root } = JSON.parse(document.getElementById("data").textContent).flame;
  const place = document.getElementById("flame");
  const read = document.getElementById("flame-read");
  const found = document.getElementById("flame-found");
  const search = document.getElementById("flame-search");
  const height = 20;
  let kind = 0;
  let current = 0;

  const bytes = (value) => {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return `${unit === 0 || value >= 99.95 ? value.toFixed(0) : value < 9.995 ? value.toFixed(2) : value.toFixed(1)} ${units[unit]}`;
  };
  // The library asks for the values of calls and of the nodes that it makes of them.
  const valueOf = (node) => (node.v ?? node.data.v)[kind];
  const share = (value) => `${(100 * value / (root.v[kind] || 1)).toFixed(1)} %`;
  const inWords = (node) => `${node.data.n}: ${bytes(valueOf(node))}, ${share(valueOf(node))} of ${bytes(root.v[kind])}`;
  const hue = (name) => {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 65521;
    return `var(--f${hash % 6})`;
  };

  const chart = flamegraph.default()
    .inverted(true)
    .cellHeight(height)
    .minFrameSize(1)
    .transitionDuration(0)
    .resetHeightOnZoom(true)
    .getValue(valueOf)
    .sort((one, other) => valueOf(other) - valueOf(one))
    .setLabelHandler(inWords)
    .setColorMapper((node) => (node.highlight ? "var(--found)" : hue(node.data.n)))
    .setDetailsHandler((text) => { read.textContent = text ?? ""; })
    .setSearchMatch((node, term) => term !== "" && node.data.n.toLowerCase().includes(term.toLowerCase()))
    .setSearchHandler((results, sum) => {
      const places = results.length === 1 ? "1 call" : `${results.length} calls`;
      found.textContent = search.value.trim() === "" ? "" : `${places} found, ${bytes(sum)}, ${share(sum)}`;
    })
    .onClick((node) => { current = node.id; dress(); });

  const frames = () => d3.select(place).selectAll("g.frame");
  const byId = (id) => frames().filter((node) => node.id === id).node();
  // What the library leaves open: names and levels for those who cannot see, one stop for the keyboard, a picture that shrinks
  // onto paper.
  const dress = () => {
    const svg = d3.select(place).select("svg");
    svg.attr("role", "tree").attr("aria-label", `Calls by bytes ${kinds[kind].title}`)
      .attr("viewBox", `0 0 ${chart.width()} ${svg.attr("height")}`);
    svg.select("text.title").remove();
    if (!byId(current)) current = 0;
    frames()
      .attr("role", "treeitem")
      .attr("aria-level", (node) => node.depth + 1)
      .attr("aria-label", inWords)
      .attr("tabindex", (node) => (node.id === current ? 0 : -1))
      .classed("found", (node) => Boolean(node.highlight))
      .on("focus", (_, node) => { read.textContent = inWords(node); });
  };
  const moveTo = (element) => {
    if (!element) return;
    current = d3.select(element).datum().id;
    dress();
    element.focus();
  };
  const neighbour = (node, step) => {
    const row = frames().filter((other) => other.depth === node.depth).nodes();
    row.sort((one, other) => d3.select(one).datum().x0 - d3.select(other).datum().x0);
    return row[row.findIndex((one) => d3.select(one).datum() === node) + step];
  };
  const largestBelow = (node) => {
    const below = (node.children ?? []).map((child) => byId(child.id)).filter(Boolean);
    return below.sort((one, other) => valueOf(d3.select(other).datum()) - valueOf(d3.select(one).datum()))[0];
  };
  const draw = () => { chart.update(); dress(); };
  const reset = () => { chart.resetZoom(); current = 0; dress(); };

  place.addEventListener("keydown", (event) => {
    const element = event.target.closest("g.frame");
    if (!element || event.ctrlKey || event.altKey || event.metaKey) return;
    const node = d3.select(element).datum();
    const actions = {
      ArrowDown: () => moveTo(largestBelow(node)),
      ArrowUp: () => node.parent && moveTo(byId(node.parent.id)),
      ArrowLeft: () => moveTo(neighbour(node, -1)),
      ArrowRight: () => moveTo(neighbour(node, 1)),
      Home: () => moveTo(byId(0)),
      Enter: () => { chart.zoomTo(node); moveTo(byId(node.id)); },
      " ": () => { chart.zoomTo(node); moveTo(byId(node.id)); },
      Escape: () => { reset(); moveTo(byId(0)); },
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });

  const radios = document.getElementById("flame-kinds");
  kinds.forEach((one, index) => {
    const label = document.createElement("label");
    const radio = document.createElement("input");
    radio.type = "radio";
    radio.name = "kind";
    radio.value = one.name;
    radio.checked = index === 0;
    radio.addEventListener("change", () => {
      kind = index;
      reset();
      if (search.value.trim() !== "") chart.search(search.value.trim());
      dress();
    });
    label.append(radio, ` ${one.title} (${bytes(root.v[index])})`);
    radios.append(label);
  });
  search.addEventListener("input", () => { chart.search(search.value.trim()); dress(); });
  document.getElementById("flame-reset").addEventListener("click", reset);
  document.getElementById("flame-form").addEventListener("submit", (event) => event.preventDefault());

  chart.width(place.clientWidth || 640);
  d3.select(place).datum(root).call(chart);
  dress();
  new ResizeObserver(() => {
    if (place.clientWidth > 0 && place.clientWidth !== chart.width()) { chart.width(place.clientWidth); draw(); }
  }).observe(place);
})();
