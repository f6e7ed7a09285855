// "Rank": a query and documents, best first, with scores as bars.
import { ApiFailure, post } from "./api.js";
import { costLine } from "./cost.js";
import { byId, disclosure, element } from "./dom.js";
import { counted, shortened } from "./format.js";
import { chosenModel } from "./model_choice.js";
import { setUpRequestForm } from "./request_form.js";
import { countTexts, textsOf } from "./texts.js";
import { trieFigure } from "./trie.js";

const SHOWN_AT_ONCE = 20;

function resultItem(result, place, text) {
  const score = result.relevance_score;
  return element("li", { class: "result" },
    element("span", { class: "place", "aria-hidden": "true" }, String(place)),
    element("span", { class: "text" }, text),
    element("span", { class: "score" }, element("span", { class: "spoken" }, "score "), score.toFixed(3)),
    element("span", { class: "track", "aria-hidden": "true" },
      element("span", { class: "fill", style: { width: `${100 * score}%` } })));
}

/** The best ones, and the others when they are asked for. */
function resultLists(results, documents) {
  const list = (part, first) => element("ol", { class: "results", start: String(first) },
    part.map((result, index) => resultItem(result, first + index, documents[result.index])));
  const others = results.slice(SHOWN_AT_ONCE);
  return [list(results.slice(0, SHOWN_AT_ONCE), 1), others.length === 0 ? null
    : disclosure(counted(others.length, "more document"), () => list(others, SHOWN_AT_ONCE + 1))];
}

async function rank(signal) {
  const query = byId("rank-query").value.trim();
  const documents = textsOf(byId("rank-documents").value);
  const instruction = byId("rank-instruction").value.trim();
  if (!query) throw new ApiFailure(400, "Type a query.");
  if (documents.length === 0) throw new ApiFailure(400, "Type at least one document.");
  const request = { ...chosenModel("rank"), query, documents, return_trie: true };
  if (instruction) request.instruction = instruction;
  const cost = await post("v1/rerank", request, signal);
  const { results, trie } = cost.answer;
  byId("rank-results").replaceChildren(
    element("div", {}, resultLists(results, documents)), costLine(cost));
  byId("rank-trie").replaceChildren(...(trie ? [trieFigure(trie, "document")] : []));
  return `${counted(results.length, "document")} ranked. Best: ${shortened(documents[results[0].index], 80)}`;
}

export function setUpRank() {
  countTexts(byId("rank-documents"), byId("rank-count"), "document");
  setUpRequestForm(byId("rank-form"), byId("rank-status"), rank);
}
