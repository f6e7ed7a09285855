// Which model a form asks: a field for it where the server has several that can do what the form does.
import { byId, element } from "./dom.js";

/** Offers `models` (of /stats) in the field of `form`, "rank" or "similarity"; hidden if there is no choice. */
export function offerModels(form, models) {
  const select = byId(`${form}-model`);
  const names = models.map(({ model }) => model);
  const offered = [...select.options].map((option) => option.value);
  if (names.join("\n") !== offered.join("\n")) {
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    if (names.includes(chosen)) select.value = chosen;
  }
  byId(`${form}-model-field`).hidden = names.length < 2;
}

/** {model} for a request of `form`; {} where there is no choice: the server takes the one that can. */
export function chosenModel(form) {
  return byId(`${form}-model-field`).hidden ? {} : { model: byId(`${form}-model`).value };
}

/** Those that can do `job`, "embed" or "rerank", those made for it first. */
export function modelsFor(job, models) {
  const foreign = ({ made_for: purpose }) => purpose === (job === "embed" ? "rerank" : "embedding");
  const able = models.filter((model) => model[`can_${job}`]);
  return [...able.filter((model) => !foreign(model)), ...able.filter(foreign)];
}
