// The page at `/`: puts its parts together.
import { setUpBatches } from "./batches.js";
import { byId } from "./dom.js";
import { setUpKeyForm, showKeyForm } from "./key_form.js";
import { setUpLive } from "./live.js";
import { modelsFor, offerModels } from "./model_choice.js";
import { setUpRank } from "./rank.js";
import { offerPrompts, setUpSimilarity } from "./similarity.js";
import { setUpTabs } from "./tabs.js";

setUpKeyForm();
setUpRank();
setUpSimilarity();
const refreshBatches = setUpBatches();
setUpTabs(byId("tabs"), (panel) => panel === "batches" && refreshBatches());
setUpLive((stats) => {
  byId("model").textContent = stats.models.map(({ model }) => model).join(", ");
  offerModels("rank", modelsFor("rerank", stats.models));
  offerModels("similarity", modelsFor("embed", stats.models));
  offerPrompts(modelsFor("embed", stats.models));
  if (stats.keys_required) showKeyForm();
});
