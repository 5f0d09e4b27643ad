// Charts: lines over time by uPlot, and sparklines as SVG.
import { count, tick, time } from "./format.js";
import { el } from "./parts.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns a point for each period, so that periods without calls are zero. */
export function fill(answer, row, measures) {
  const step = answer.step_seconds;
  const first = Math.floor(Date.parse(answer.from) / 1000 / step) * step;
  const end = Math.min(Date.parse(answer.to), Date.now()) / 1000;
  const points = new Map((row?.points ?? []).map((point) => [Date.parse(point.at) / 1000, point]));
  const times = [];
  for (let at = first; at < end; at += step) times.push(at);
  return [times, ...measures.map((measure) => times.map((at) => points.get(at)?.[measure] ?? 0))];
}

/** A chart of series `{label, color}` over `data`, as uPlot expects it, with its numbers as a table. */
export function lines(title, data, series, show = count) {
  const readout = el("p", { class: "readout", "aria-hidden": "true" });
  const legend = (index) => {
    const at = index ?? data[0].length - 1;
    readout.replaceChildren(
      ...series.map((one, position) => {
        const total = data[position + 1].reduce((sum, value) => sum + value, 0);
        const value = index === null ? total : data[position + 1][at];
        return el("span", {}, el("i", { class: `swatch ${one.color}` }), `${one.label} `, el("b", {}, show(value)));
      }),
      el("span", { class: "when" }, index === null ? "in total" : time(data[0][at] * 1000)),
    );
  };
  const plot = el("div", { class: "plot", role: "img", "aria-label": `${title}, over time. The table below has the numbers.` });
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const options = (width) => ({
    width,
    height: 240,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, size: 30, grid: { show: false }, values: (_, times, __, ___, step) => times.map((at) => tick(at, step)) },
      { ...axis, size: 58, values: (_, values) => values.map((value) => show(value).replace(/\.0+(?=\D|$)/, "")) },
    ],
    series: [{}, ...series.map((one) => ({
      label: one.label,
      stroke: color(`--${one.color}`),
      fill: one.filled ? color(`--${one.color}-area`) : undefined,
      width: 2,
      points: { show: data[0].length < 3 },
    }))],
    hooks: { setCursor: [(chart) => legend(chart.cursor.idx ?? null)] },
  });
  let chart;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(plot.clientWidth);
    if (width === 0) return;
    if (chart === undefined) chart = new window.uPlot(options(width), data, plot);
    else chart.setSize({ width, height: 240 });
  });
  observer.observe(plot);
  legend(null);
  const rows = data[0].map((at, index) => el("tr", {}, el("th", { scope: "row", class: "text" }, time(at * 1000)),
    ...series.map((_, position) => el("td", { class: "number" }, show(data[position + 1][index])))));
  const numbers = el("details", {}, el("summary", { "data-key": `chart:${title}` }, "Show the numbers"),
    el("div", { class: "scroll", role: "region", "aria-label": title, tabindex: "0" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "text" }, "Time"),
        ...series.map((one) => el("th", { scope: "col", class: "number" }, one.label)))),
      el("tbody", {}, rows.reverse()))));
  return el("div", { class: "chart" }, readout, plot, numbers);
}

/** A small line of numbers, for a row of a table. */
export function sparkline(values, label) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 96 24");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const most = Math.max(1, ...values);
  const x = (at) => values.length < 2 ? 48 : at / (values.length - 1) * 94 + 1;
  const points = values.map((value, at) => `${x(at).toFixed(1)},${(22 - value / most * 20).toFixed(1)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}
