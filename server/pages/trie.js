// The prefix trie of one request, drawn as its inputs lie in it: from left to right the tokens, a line for each
// input. Where inputs share their beginning, one tall box stands for all of them, and is computed once.
import { boxFigure } from "./box_figure.js";
import { disclosure, element, scroller, table } from "./dom.js";
import { count, counted, percent, shortened } from "./format.js";

// Pixels.
const TALLEST_LINE = 30;
const LOWEST_LINE = 5;
const GOOD_HEIGHT = 300;
const TEXT_LINE = 17;  // a line of text in a box, see .box
/** Share of the figure's width from which on a box has a caption. */
const CAPTION_WIDTH = 0.25;

/** Colour step by how many inputs share a node: one for each doubling, as in /debug/trie.svg. */
const stepOf = (inputs) => Math.min(6, Math.floor(Math.log2(Math.max(1, inputs))));

/** Adds to each node its children, its level (from 1), and `line`, the first of its inputs' lines. */
function laidOut(nodes) {
  const placed = nodes.map((node) => ({ ...node, children: [], level: 1, line: 0, used: 0 }));
  let lines = 0;
  for (const [index, node] of placed.entries()) {
    const parent = node.parent === null ? null : placed[node.parent];
    if (parent === null) {
      node.line = lines;
      lines += node.inputs;
    } else {
      node.line = parent.line + parent.used;
      node.level = parent.level + 1;
      parent.used += node.inputs;
      parent.children.push(index);
    }
    node.siblings = parent === null ? null : parent.children;
  }
  const roots = placed.flatMap((node, index) => (node.parent === null ? [index] : []));
  for (const node of placed) node.siblings ??= roots;
  return { placed, lines };
}

const sharing = (node, noun) =>
  node.inputs === 1 ? `of one ${noun} alone` : `shared by ${counted(node.inputs, noun)}, computed once`;

function boxOf(node, noun, columns, lineHeight) {
  const height = node.inputs * lineHeight;
  const lines = Math.floor((height - 3) / TEXT_LINE);
  // Line ends are part of the text; a box of one line shows them as a sign.
  const text = lines > 1 ? node.text : node.text.replace(/\s*\n\s*/g, " ↵ ");
  return {
    left: node.position / columns,
    width: node.tokens / columns,
    top: node.line * lineHeight,
    height,
    text: lines > 2 && node.tokens > columns * CAPTION_WIDTH ? [element("b", {}, `${counted(node.tokens, "token")} × ${node.inputs}`), text]
      : lines > 0 ? text : "",
    class: `share-${stepOf(node.inputs)} ${lines > 1 ? "tall" : lines === 0 ? "thin" : ""}`,
    label: `${counted(node.tokens, "token")} from position ${node.position}, ${sharing(node, noun)}: ` +
      (lines > 0 ? "" : shortened(node.text, 120)),
    detail: () => [
      element("b", {}, `${counted(node.tokens, "token")} from position ${count(node.position)}, ` +
        `${sharing(node, noun)}. `),
      element("q", {}, shortened(node.text, 200)),
    ],
    attributes: {
      "aria-level": String(node.level),
      "aria-posinset": String(node.siblings.indexOf(node.index) + 1),
      "aria-setsize": String(node.siblings.length),
    },
  };
}

function summary(trie, noun) {
  const saved = trie.tokens - trie.rows;
  const share = trie.tokens > 0 ? trie.rows / trie.tokens : 1;
  return [
    element("ul", { class: "figures" },
      [[count(trie.tokens), `tokens in ${counted(trie.inputs, noun)}`],
       [count(trie.rows), "rows computed"],
       [count(saved), `tokens shared, ${percent(1 - share)} saved`]].map(([figure, what]) =>
        element("li", {}, element("b", {}, figure), ` ${what}`))),
    element("div", { class: "split", "aria-hidden": "true" },
      element("span", { style: { width: `${100 * share}%` } })),
  ];
}

function legend(noun, most) {
  const steps = Array.from({ length: stepOf(most) + 1 }, (_, step) => step);
  return element("p", { class: "legend" }, `one ${noun}`,
    element("span", { class: "swatches", "aria-hidden": "true" },
      steps.map((step) => element("i", { class: `share-${step}` }))),
    `shared by ${count(most)}`);
}

function asTable(placed, noun) {
  return scroller("Nodes of the prefix trie", table(
    `Nodes, from the root down; each goes on where its parent, the node of the level before, ends`,
    [{ name: "Level", number: true }, { name: "Position", number: true }, { name: "Tokens", number: true },
     { name: `Shared by ${noun}s`, number: true }, { name: "Text" }],
    placed.map((node) => [count(node.level), count(node.position), count(node.tokens), count(node.inputs),
      shortened(node.text, 200)])));
}

/** The figure of `trie`, as answers to `return_trie` hold it; `noun` is what the request calls its inputs. */
export function trieFigure(trie, noun) {
  const { placed, lines } = laidOut(trie.nodes);
  for (const [index, node] of placed.entries()) node.index = index;
  const columns = placed.reduce((most, node) => Math.max(most, node.position + node.tokens), 1);
  const lineHeight = Math.max(LOWEST_LINE, Math.min(TALLEST_LINE, GOOD_HEIGHT / Math.max(1, lines)));
  const go = (index, key) => {
    const node = placed[index];
    const place = node.siblings.indexOf(index);
    return { ArrowLeft: node.parent, ArrowRight: node.children[0],
             ArrowUp: node.siblings[place - 1], ArrowDown: node.siblings[place + 1] }[key];
  };
  const { plane, detail } = boxFigure({
    label: `Prefix trie of the request: ${counted(trie.tokens, "token")} in ${counted(trie.rows, "row")}`,
    role: "tree",
    itemRole: "treeitem",
    height: lines * lineHeight,
    boxes: placed.map((node) => boxOf(node, noun, columns, lineHeight)),
    go,
    hint: "Point at a box, tap it, or walk through them with the arrow keys, to read what it holds.",
  });
  const most = placed.reduce((inputs, node) => Math.max(inputs, node.inputs), 1);
  const leftOut = trie.hidden_nodes > 0
    ? element("p", { class: "note" }, `${counted(trie.hidden_nodes, "smaller node")} not drawn.`) : null;
  return element("section", { class: "card trie" },
    element("h2", {}, "What was computed"),
    element("p", { class: "lead" },
      `Each line is one ${noun} as the model reads it, from left to right. Where lines begin alike they are one ` +
      "box, and one computation."),
    summary(trie, noun),
    element("div", { class: "plane" }, plane),
    element("p", { class: "axis", "aria-hidden": "true" }, element("span", {}, "first token"),
      element("span", {}, `token ${count(columns)}`)),
    detail, legend(noun, most), leftOut,
    disclosure("The same as a table", () => asTable(placed, noun)));
}
