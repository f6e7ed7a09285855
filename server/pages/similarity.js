// "Similarity": each text with each, as a heat map of cosines.
import { ApiFailure, post } from "./api.js";
import { costLine } from "./cost.js";
import { byId, element, scroller } from "./dom.js";
import { counted, shortened } from "./format.js";
import { chosenModel } from "./model_choice.js";
import { setUpRequestForm } from "./request_form.js";
import { countTexts, textsOf } from "./texts.js";
import { trieFigure } from "./trie.js";

const TEXTS_MAX = 60;  // more cells than anybody can read
const STEPS = 9;       // of the colour scale, see .heat-0 to .heat-8

/** Cosine similarity of every pair of `vectors`. */
function cosines(vectors) {
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((a, i) => vectors.map((b, j) => dot(a, b) / (lengths[i] * lengths[j])));
}

/** Colour step of a cosine: none below 0, the darkest from 0.95. */
const stepOf = (cosine) => Math.max(0, Math.min(STEPS - 1, Math.round((cosine / 0.95) * (STEPS - 1))));

function closestPair(matrix) {
  let best = null;
  for (let i = 0; i < matrix.length; ++i) {
    for (let j = i + 1; j < matrix.length; ++j) {
      if (best === null || matrix[i][j] > best.cosine) best = { i, j, cosine: matrix[i][j] };
    }
  }
  return best;
}

/** A table, so that it needs no other alternative; hovering over a cell says which pair it is. */
function heatMap(texts, matrix) {
  const detail = element("p", { class: "figure-detail" }, "Point at a cell, or tap it, to read its two texts in full.");
  const name = (index) => `${index + 1}`;
  const rows = matrix.map((row, i) => element("tr", {},
    element("th", { scope: "row" },
      element("span", { class: "row-text" }, element("span", { class: "index" }, name(i)), texts[i])),
    row.map((cosine, j) => element("td", { class: `heat-${stepOf(cosine)}`, "data-pair": `${i} ${j}` },
      cosine.toFixed(2).replace("-0.00", "0.00")))));
  const map = element("table", { class: "heat" },
    element("caption", { class: "spoken" }, "Cosine similarity of each text with each"),
    element("thead", {}, element("tr", {},
      element("th", { scope: "col" }, "Text"),
      texts.map((text, j) => element("th", { scope: "col", title: text, class: "number" }, name(j))))),
    element("tbody", {}, rows));
  map.addEventListener("pointerover", (event) => {
    const pair = event.target.closest("[data-pair]")?.dataset.pair.split(" ").map(Number);
    if (!pair) return;
    const [i, j] = pair;
    detail.replaceChildren(element("b", {}, matrix[i][j].toFixed(3)), ` ${texts[i]} · ${texts[j]}`);
  });
  return [scroller("Similarity matrix", map), detail];
}

function legend() {
  return element("p", { class: "legend" }, "0 or less",
    element("span", { class: "swatches", "aria-hidden": "true" },
      Array.from({ length: STEPS }, (_, step) => element("i", { class: `heat-${step}` }))),
    "1: the same direction");
}

async function compare(signal) {
  const texts = textsOf(byId("similarity-texts").value);
  const prompt = byId("similarity-prompt").value;
  if (texts.length < 2) throw new ApiFailure(400, "Type at least two texts.");
  if (texts.length > TEXTS_MAX) {
    throw new ApiFailure(400, `The matrix shows at most ${TEXTS_MAX} texts; these are ${texts.length}.`);
  }
  const request = { ...chosenModel("similarity"), input: texts, encoding_format: "float", return_trie: true };
  if (prompt) request.prompt_name = prompt;
  const cost = await post("v1/embeddings", request, signal);
  const { data, trie } = cost.answer;
  const matrix = cosines([...data].sort((a, b) => a.index - b.index).map((entry) => entry.embedding));
  byId("similarity-results").replaceChildren(...heatMap(texts, matrix), legend(), costLine(cost));
  byId("similarity-trie").replaceChildren(...(trie ? [trieFigure(trie, "text")] : []));
  const { i, j, cosine } = closestPair(matrix);
  return `${counted(texts.length, "text")} compared. Closest, ${cosine.toFixed(2)}: ` +
    `${shortened(texts[i], 50)} and ${shortened(texts[j], 50)}`;
}

let models = [];  // that embed, as /stats has them
let offered = "";  // prompts, one a line

/** The prompts of the model that is chosen; the first choice, none, is in the markup. */
function showPrompts() {
  const choice = byId("similarity-prompt");
  const { model } = chosenModel("similarity");
  const names = (models.find((one) => one.model === model) ?? models[0])?.prompts ?? [];
  if (names.join("\n") !== offered) {
    offered = names.join("\n");
    const chosen = choice.value;
    choice.replaceChildren(choice.options[0], ...names.map((name) => element("option", { value: name }, name)));
    choice.value = names.includes(chosen) ? chosen : "";
  }
  byId("similarity-prompt-field").hidden = names.length === 0;
}

/** Of `known`, the models that embed, the one that is asked unless another is chosen first. */
export function offerPrompts(known) {
  models = known;
  showPrompts();
}

export function setUpSimilarity() {
  byId("similarity-model").addEventListener("change", showPrompts);
  countTexts(byId("similarity-texts"), byId("similarity-count"), "text");
  setUpRequestForm(byId("similarity-form"), byId("similarity-status"), compare);
}
