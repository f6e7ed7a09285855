// The timeline of batches: a lane each for planner, worker and interludes, from a Chrome trace. Times in which
// nothing ran are cut short, or the batches of a quiet server would be too narrow to see.
import { boxFigure } from "./box_figure.js";
import { disclosure, element, scroller, table } from "./dom.js";
import { count, counted, duration, percent } from "./format.js";

const LANE_HEIGHT = 44;      // pixels
const BOX_HEIGHT = 32;
const GAPS_SHARE = 0.3;      // of the width at most, for all cut times together
const GAP_WIDTH = 0.025;     // of one
const LONG_GAP = 0.05;       // of the busy time: longer ones are cut

/** {lanes: [{id, name}], spans: [{lane, name, category, begin, end (microseconds), args}]} */
function readTrace(trace) {
  const lanes = [];
  const spans = [];
  for (const event of trace.traceEvents) {
    if (event.ph === "M" && event.name === "thread_name") lanes.push({ id: event.tid, name: event.args.name });
    if (event.ph === "X") {
      spans.push({ lane: event.tid, name: event.name, category: event.cat, begin: event.ts,
        end: event.ts + event.dur, args: event.args });
    }
  }
  spans.sort((a, b) => a.begin - b.begin);
  return { lanes, spans };
}

/** The spans of the last `most` batches. */
function ofLastBatches(spans, most) {
  const last = [...new Set(spans.map((span) => span.args.batch))].sort((a, b) => a - b).slice(-most);
  return spans.filter((span) => span.args.batch >= last[0]);
}

/** Time → share of the width, with long gaps cut; `gaps`: where they are and how long they were. */
function timeScale(spans) {
  const busy = [];
  for (const { begin, end } of spans) {
    const last = busy.at(-1);
    if (last && begin <= last.end) last.end = Math.max(last.end, end);
    else busy.push({ begin, end });
  }
  const busyTime = Math.max(1, busy.reduce((sum, { begin, end }) => sum + end - begin, 0));
  const pieces = [busy[0]];
  for (const piece of busy.slice(1)) {
    const last = pieces.at(-1);
    if (piece.begin - last.end > LONG_GAP * busyTime) pieces.push(piece);
    else pieces[pieces.length - 1] = { begin: last.begin, end: piece.end };
  }
  const shown = pieces.reduce((sum, { begin, end }) => sum + end - begin, 0) || 1;
  const gapWidth = Math.min(GAP_WIDTH, GAPS_SHARE / Math.max(1, pieces.length - 1));
  const perMicrosecond = (1 - gapWidth * (pieces.length - 1)) / shown;
  const gaps = [];
  let left = 0;
  for (const [index, piece] of pieces.entries()) {
    piece.left = left;
    left += (piece.end - piece.begin) * perMicrosecond;
    if (index + 1 < pieces.length) {
      gaps.push({ left, width: gapWidth, milliseconds: (pieces[index + 1].begin - piece.end) / 1000 });
      left += gapWidth;
    }
  }
  const at = (time) => {
    const piece = pieces.findLast((one) => one.begin <= time);
    return piece.left + (Math.min(time, piece.end) - piece.begin) * perMicrosecond;
  };
  return { at, gaps, busyTime };
}

const took = (span) => duration((span.end - span.begin) / 1000);
const saved = (args) => (args.tokens > 0 ? 1 - args.compact_rows / args.tokens : 0);

function explained(span, lane) {
  if (span.category !== "pass") return `${span.name} (${lane.name}): ${took(span)}`;
  const { args } = span;
  return `${span.name} (${lane.name}): ${took(span)}, ${duration(args.predicted_ms)} predicted; ` +
    `${counted(args.sequences, "input")} of ${counted(args.tokens, "token")} in ` +
    `${counted(args.compact_rows, "row")}, ${percent(saved(args))} saved; ` +
    `closed by ${args.closed.replaceAll("_", " ")}; ${args.outcome}`;
}

function asTable(spans) {
  return scroller("Batches", table("Batches, the last one first",
    [{ name: "Batch" }, { name: "Took", number: true }, { name: "Predicted", number: true },
     { name: "Inputs", number: true }, { name: "Tokens", number: true }, { name: "Rows", number: true },
     { name: "Saved", number: true }, { name: "Closed by" }, { name: "Outcome" }],
    spans.filter((span) => span.category === "pass").reverse().map((span) => [
      span.name.replace("batch ", ""), took(span), duration(span.args.predicted_ms), count(span.args.sequences),
      count(span.args.tokens), count(span.args.compact_rows), percent(saved(span.args)),
      span.args.closed.replaceAll("_", " "), span.args.outcome])));
}

/** The figure of a Chrome trace's last `most` batches. */
export function timelineFigure(trace, most) {
  const { lanes, spans: all } = readTrace(trace);
  if (all.length === 0) return element("p", { class: "note" }, "No batch has run yet. Rank something first.");
  const spans = ofLastBatches(all, most);
  const { at, gaps, busyTime } = timeScale(spans);
  const laneIndex = new Map(lanes.map((lane, index) => [lane.id, index]));
  const boxes = spans.map((span) => {
    const index = laneIndex.get(span.lane);
    const text = explained(span, lanes[index]);
    return {
      left: at(span.begin),
      width: at(span.end) - at(span.begin),
      top: index * LANE_HEIGHT + (LANE_HEIGHT - BOX_HEIGHT) / 2,
      height: BOX_HEIGHT,
      text: span.category === "pass" ? element("span", { "aria-hidden": "true" }, span.args.batch) : null,
      class: span.category === "plan" ? "plan" : span.args.outcome === "done" ? "pass" : "pass failed",
      label: text,
      detail: () => [text],
    };
  });
  const { plane, detail } = boxFigure({
    label: "Timeline of batches", role: "listbox", itemRole: "option", height: lanes.length * LANE_HEIGHT, boxes,
    go: (index, key) => ({ ArrowLeft: index - 1, ArrowRight: index + 1, ArrowUp: index - 1,
                           ArrowDown: index + 1 })[key],
    hint: "Point at a box, tap it, or walk through them with the arrow keys, for its figures.",
  });
  const passes = spans.filter((span) => span.category === "pass");
  const marks = element("div", { class: "gaps", "aria-hidden": "true" }, gaps.map((gap) => element("i", {
    title: `${duration(gap.milliseconds)} in which nothing ran`,
    style: { left: `${100 * gap.left}%`, width: `${100 * gap.width}%` },
  })));
  return element("div", { class: "timeline" },
    element("div", { class: "lanes" },
      element("div", { class: "lane-names", "aria-hidden": "true" }, lanes.map((lane) =>
        element("span", {}, lane.name))),
      element("div", { class: "plane" }, marks, plane)),
    detail,
    element("p", { class: "legend" },
      element("span", { class: "swatches", "aria-hidden": "true" }, element("i", { class: "plan" })), "planning",
      element("span", { class: "swatches", "aria-hidden": "true" }, element("i", { class: "pass" })), "computing",
      element("span", { class: "swatches", "aria-hidden": "true" }, element("i", { class: "gap" })),
      "nothing to do, cut short"),
    element("p", { class: "note" },
      `${counted(passes.length, "batch").replace("batchs", "batches")} in ${duration(busyTime / 1000)} of work.`),
    disclosure("The same as a table", () => asTable(spans)));
}
