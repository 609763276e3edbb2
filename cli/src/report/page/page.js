"use strict";
// Draws the lines of the page's data, switches them on and off, and hands them out as CSV. All else is in the page.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = document.getElementById("chart");
  const readout = document.getElementById("readout");
  const groups = [...new Set(data.lines.map((line) => line.name))];
  const shown = new Set(groups);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [14, 4]];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hue = (group) => colour(`--c${groups.indexOf(group) % 6}`);
  const bytes = (value) => {
    if (value === 0) return "0";
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return `${value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0)} ${units[unit]}`;
  };
  // Of each line its value at a time, between two of its corners.
  const at = (line, seconds) => {
    const x = line.seconds;
    if (x.length === 0 || seconds > x[x.length - 1]) return null;
    let next = x.findIndex((one) => one >= seconds);
    if (next === 0) return line.bytes[0];
    const share = (seconds - x[next - 1]) / ((x[next] - x[next - 1]) || 1);
    return line.bytes[next - 1] + share * (line.bytes[next] - line.bytes[next - 1]);
  };

  const tell = (chart) => {
    const { left } = chart.cursor;
    if (left == null || left < 0) { readout.textContent = readout.dataset.hint; return; }
    const seconds = chart.posToVal(left, "x");
    const main = data.lines.filter((line) => line.is_main && shown.has(line.name));
    const parts = main.map((line) => [line.name, at(line, seconds)]).filter(([, value]) => value != null);
    const where = data.across === "seconds" ? `at ${seconds.toFixed(2)} s` : `at event ${Math.round(seconds)}`;
    readout.textContent = `${where}: ` + parts.map(([name, value]) => `${name} ${bytes(value)}`).join(", ");
  };

  const axis = (more) => ({
    stroke: () => colour("--text"),
    grid: { stroke: () => colour("--rule"), width: 1 },
    ticks: { stroke: () => colour("--rule"), width: 1 },
    ...more,
  });
  const options = {
    width: place.clientWidth || 640,
    height: 320,
    legend: { show: false },
    cursor: { drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.05] } },
    axes: [
      axis({ label: data.across }),
      axis({ size: 76, values: (_, ticks) => ticks.map(bytes) }),
    ],
    series: [{}, ...data.lines.map((line) => ({
      label: line.name,
      stroke: () => hue(line.name),
      width: line.is_main ? 2.5 : 1,
      alpha: line.is_main ? 1 : 0.45,
      dash: dashes[groups.indexOf(line.name) % dashes.length],
      spanGaps: true,
      points: { show: false },
    }))],
    hooks: { setCursor: [tell] },
  };
  const table = uPlot.join(data.lines.map((line) => [line.seconds, line.bytes]));
  const chart = new uPlot(options, table, place);
  new ResizeObserver(() => {
    if (place.clientWidth > 0 && place.clientWidth !== chart.width) chart.setSize({ width: place.clientWidth, height: 320 });
  }).observe(place);
  // Colours are read anew when the theme or the medium changes.
  const redraw = () => chart.redraw(false);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);

  const legend = document.getElementById("legend");
  for (const group of groups) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    const swatch = document.createElement("span");
    box.type = "checkbox";
    box.checked = true;
    swatch.className = "swatch";
    swatch.style.borderTopColor = `var(--c${groups.indexOf(group) % 6})`;
    box.addEventListener("change", () => {
      if (box.checked) shown.add(group); else shown.delete(group);
      data.lines.forEach((line, index) => {
        if (line.name === group) chart.setSeries(index + 1, { show: box.checked });
      });
    });
    label.append(box, swatch, group);
    legend.append(label);
  }

  document.getElementById("download").addEventListener("click", () => {
    const rows = data.lines.flatMap((line) => line.seconds.map((seconds, index) =>
      [line.cell, line.run, seconds, line.bytes[index]].join(",")));
    const file = new Blob([[`${data.named},run,${data.across},bytes`, ...rows].join("\n") + "\n"], { type: "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "memory.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
