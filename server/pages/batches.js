// "Batches": for whoever runs the server, with --debug-endpoints: when the last batches ran, and what the last
// one shared. Numbers alone; nobody's texts.
import { get, keyEvents } from "./api.js";
import { byId, disclosure, element, scroller } from "./dom.js";
import { timelineFigure } from "./timeline.js";

let trace = null;
let pictureAddress = null;

function drawTimeline() {
  if (trace) byId("timeline").replaceChildren(timelineFigure(trace, Number(byId("batches-shown").value)));
}

/** The picture's description: /debug/trie, whose first line sums it up. */
async function drawTrie() {
  const [picture, text] = await Promise.all([
    get("debug/trie.svg").then((response) => response.blob()),
    get("debug/trie").then((response) => response.text()),
  ]);
  if (pictureAddress) URL.revokeObjectURL(pictureAddress);
  pictureAddress = URL.createObjectURL(picture);
  const headline = text.split("\n", 1)[0];
  byId("all-trie").replaceChildren(
    element("p", { class: "note" }, headline),
    scroller("Prefix trie of the last batch", element("img", {
      src: pictureAddress, alt: `The prefix trie of the last batch as boxes. ${headline}`, class: "trie-picture",
    })),
    disclosure("The same as text", () => scroller("Prefix trie as text", element("pre", {}, text))));
}

function explain(error) {
  const reasons = {
    401: "This needs an API key: type one above.",
    403: "This key may not see them: an administrator’s key is needed.",
    404: "This server shows no batches here. Start it with --debug-endpoints to see them.",
  };
  trace = null;
  byId("batches-state").textContent = reasons[error.status] ?? error.message;
  byId("batches-content").hidden = true;
}

async function refresh() {
  try {
    trace = await (await get("debug/timeline")).json();
    drawTimeline();
    await drawTrie();
    byId("batches-state").textContent = "";
    byId("batches-content").hidden = false;
  } catch (error) {
    if (error.status === undefined) throw error;
    explain(error);
  }
}

/** What to call when the tab is shown. */
export function setUpBatches() {
  byId("batches-refresh").addEventListener("click", refresh);
  byId("batches-shown").addEventListener("change", drawTimeline);
  keyEvents.addEventListener("changed", () => byId("batches").hidden || refresh());
  return refresh;
}
