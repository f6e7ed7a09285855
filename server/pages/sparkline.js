// The last minute of one figure, as a line.
import { drawing } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 28;

/** `values`: the newest last, at most `most` of them; the line grows from the right. */
export function sparkline(values, most) {
  const highest = Math.max(...values, 1e-9);
  const x = (index) => WIDTH - ((values.length - 1 - index) * WIDTH) / (most - 1);
  const y = (value) => HEIGHT - 2 - (value / highest) * (HEIGHT - 5);
  const points = values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`);
  return drawing("svg", {
    class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true",
  },
  drawing("polygon", { points: `${x(0).toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}` }),
  drawing("polyline", { points: points.join(" ") }));
}
