// Charts of rates over time; of a path with the band in which its bandwidth is expected.

import { h } from "./dom.js";
import { rate } from "./format.js";
import { SPAN } from "./history.js";

const HEIGHT = 170;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** The clock of this machine less the time of the node, in ms; another one after the clock was set. */
let offset = Infinity;
const CLOCK_SET_MS = 1000;
/** The local time of day at a time of the node. */
const clock = (at) => new Date(offset + at * 1000).toLocaleTimeString([], { hour12: false });

/** Lines of a path: the column, its name, its colour, and how it is drawn. */
const PATH = [
  ["rate", "delivered", "--text", { width: 2 }],
  ["p10", "10 %", "--series", { width: 0.5 }],
  ["p50", "median", "--series", { dash: [4, 4] }],
  ["p90", "90 %", "--series", { width: 0.5 }],
  ["promised", "promised", "--second", { width: 2, dash: [8, 3] }],
];

/** A chart of these lines; `update(series, at)` redraws it. It follows its width and the theme. */
export function rateChart(label, lines = PATH) {
  const element = h("div", { role: "img", "aria-label": label });
  let plot = null;
  let theme = null;
  const make = () => {
    plot?.destroy();
    theme = document.documentElement.dataset.theme;
    const line = ([, label, name, extra]) => ({ label, stroke: color(name), width: 1.5, points: { show: false }, value: (_, value) => rate(value), ...extra });
    const axis = { stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false } };
    plot = new uPlot({
      width: Math.max(200, element.clientWidth || 360), height: HEIGHT,
      cursor: { drag: { setScale: false, x: false, y: false } },
      scales: { x: { time: false }, y: {} },
      legend: { live: false },
      axes: [
        { ...axis, size: 28, space: 60, incrs: [5, 15, 30, 60], values: (_, ticks) => ticks.map((tick) => clock(tick)) },
        { ...axis, size: 74, values: (_, ticks) => ticks.map((tick) => tick === 0 ? "0" : rate(tick)) },
      ],
      bands: lines === PATH ? [{ series: [4, 2], fill: color("--band") }] : [],
      series: [
        { value: (_, value) => value === null ? "–" : clock(value) },
        ...lines.map(line),
      ],
    }, [[], ...lines.map(() => [])], element);
  };
  const resized = new ResizeObserver(() => plot?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
  resized.observe(element);
  return {
    element,
    update(series, at) {
      const apart = Date.now() - at * 1000;
      if (Math.abs(apart - offset) > CLOCK_SET_MS) offset = apart;
      if (plot === null || theme !== document.documentElement.dataset.theme) make();
      plot.batch(() => {
        plot.setData([series.at, ...lines.map(([name]) => series[name])], false);
        // At first, so that the line is not a sliver at the edge.
        plot.setScale("x", { min: Math.min(at - 30, Math.max(at - SPAN, series.at[0])), max: at });
        const all = lines.flatMap(([name]) => series[name].filter((value) => value !== null));
        plot.setScale("y", { min: 0, max: 1.15 * all.reduce((most, value) => Math.max(most, value), 1e4) });
      });
    },
    drop() { resized.disconnect(); plot?.destroy(); plot = null; },
  };
}
