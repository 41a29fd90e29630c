// Line charts over time as SVG: axes, limits, and a cursor for pointer and keyboard.
import { element } from "./dom.js";
import { clock } from "./format.js";

export const SPAN_MS = 15 * 60e3;
// Limits beyond this multiple of the values are not drawn.
const DISTANT = 5;
const HEIGHT = 150, LEFT = 64, RIGHT = 8, TOP = 8, BOTTOM = 20;

// The ends of the axis: 1, 2 or 5 times a power of the base.
function niceStep(most, isBinary) {
  const wanted = most / 3;
  const unit = isBinary ? 1024 ** Math.floor(Math.log(Math.max(wanted, 1)) / Math.log(1024)) : 1;
  const power = 10 ** Math.floor(Math.log10(wanted / unit));
  const factor = [1, 2, 5, 10].find((it) => it * power * unit >= wanted) ?? 10;
  return factor * power * unit;
}

function path(points) {
  let isOpen = false;
  return points.map((point) => {
    if (!point) { isOpen = false; return ""; }
    const command = `${isOpen ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    isOpen = true;
    return command;
  }).join("");
}

// chart({ title, format, series: [{ name, value: sample => number | null, isLimit }] }); a sample has `at`
export function chart({ title, format, isBinary = false, least = 1, series }) {
  const svg = element("svg", {
    class: "chart", tabindex: "0", role: "slider", "aria-label": `${title}: time`, "aria-orientation": "horizontal",
    "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "no samples yet",
    onpointermove: (event) => point(event.clientX - svg.getBoundingClientRect().left), onpointerleave: () => select(null), onblur: () => select(null), onkeydown: key,
  });
  const legend = element("figcaption", { class: "legend" });
  const node = element("figure", {}, element("h3", {}, title), svg, legend);
  let samples = [], selected = null, width = 600, last = 0;

  const x = (at) => LEFT + (1 - (last - at) / SPAN_MS) * (width - LEFT - RIGHT);

  function point(offset) {
    const nearest = samples.reduce((best, sample, index) => {
      const distance = Math.abs(x(sample.at) - offset);
      return distance < best[0] ? [distance, index] : best;
    }, [Infinity, null]);
    select(nearest[1]);
  }

  function key(event) {
    const from = selected ?? samples.length - 1;
    const to = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, PageUp: from - 12, PageDown: from + 12, Home: 0, End: samples.length - 1 }[event.key];
    if (to === undefined || samples.length === 0) return;
    event.preventDefault();
    select(Math.min(Math.max(to, 0), samples.length - 1));
  }

  function select(index) {
    selected = index;
    paint();
  }

  function paint() {
    if (samples.length === 0) return;
    const shown = samples[Math.min(selected ?? samples.length - 1, samples.length - 1)];
    const used = series.map((line, number) => ({ line, number, values: samples.map((sample) => line.value(sample) ?? null) }))
      .filter(({ line, values }) => line.isAlways || values.some((value) => value));
    const highest = (lines) => Math.max(least, ...lines.flatMap(({ values }) => values.filter((value) => value != null)));
    const values = used.filter(({ line }) => !line.isLimit);
    // A distant limit is in the legend alone: its line would flatten the others.
    const drawn = used.filter(({ line }) => !line.isLimit || line.value(shown) <= highest(values) * DISTANT);
    const most = highest(drawn);
    const step = niceStep(most, isBinary);
    const top = Math.ceil(most / step - 1e-9) * step;
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const parts = [];
    for (let value = 0; value <= top + step / 2; value += step) {
      parts.push(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
    }
    for (let minutes = 15; minutes >= 0; minutes -= 5) {
      const at = x(last - minutes * 60e3);
      parts.push(element("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
      parts.push(element("text", { x: at, y: HEIGHT - 4, "text-anchor": minutes === 0 ? "end" : minutes === 15 ? "start" : "middle" },
        minutes === 0 ? "now" : `−${minutes} min`));
    }
    for (const { line, number, values: own } of drawn) {
      const points = own.map((value, index) => (value == null ? null : [x(samples[index].at), y(value)]));
      parts.push(element("path", { class: `line s${number % 10}${line.isLimit ? " limit" : ""}`, d: path(points) }));
    }
    if (selected !== null) parts.push(element("line", { class: "cursor", x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: HEIGHT - BOTTOM }));
    svg.replaceChildren(...parts);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const figures = used.map(({ line }) => `${line.name} ${format(line.value(shown))}`);
    legend.replaceChildren(
      element("span", {}, `${selected === null ? "now" : clock(shown.at)}${used.length === 0 ? ": nothing" : ""}`),
      ...used.map(({ number }, index) => element("span", {}, element("i", { class: `swatch s${number % 10}`, "aria-hidden": "true" }), figures[index])));
    svg.setAttribute("aria-valuemax", samples.length - 1);
    svg.setAttribute("aria-valuenow", selected ?? samples.length - 1);
    svg.setAttribute("aria-valuetext", `${clock(shown.at)}: ${figures.join(", ") || "nothing"}`);
  }

  new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width <= 0 || contentRect.width === width) return;
    width = contentRect.width;
    paint();
  }).observe(svg);

  return {
    node,
    draw(all) {
      // The cursor stays on its sample while others arrive.
      const kept = selected === null ? null : all.indexOf(samples[selected]);
      samples = all;
      last = all.at(-1)?.at ?? 0;
      selected = kept === -1 ? null : kept;
      paint();
    },
  };
}
