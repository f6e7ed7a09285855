// The page at `/`: puts its parts together.
import { setUpBatches } from "./batches.js";
import { byId } from "./dom.js";
import { setUpKeyForm, showKeyForm } from "./key_form.js";
import { setUpLive } from "./live.js";
import { setUpRank } from "./rank.js";
import { offerPrompts, setUpSimilarity } from "./similarity.js";
import { setUpTabs } from "./tabs.js";

setUpKeyForm();
setUpRank();
setUpSimilarity();
const refreshBatches = setUpBatches();
setUpTabs(byId("tabs"), (panel) => panel === "batches" && refreshBatches());
setUpLive((stats) => {
  byId("model").textContent = stats.model;
  offerPrompts(stats.prompts ?? []);
  if (stats.keys_required) showKeyForm();
});
