// What a request cost, in one line of figures.
import { element } from "./dom.js";
import { count, duration } from "./format.js";

/** `cost` as api.js's post() gives it. */
export function costLine({ milliseconds, onServer, tokens, rows }) {
  const figures = [[milliseconds < 1 ? "under 1\u202fms" : duration(milliseconds), onServer ? "on the server" : "until the answer"]];
  if (tokens !== undefined) figures.push([count(tokens), tokens === 1 ? "token" : "tokens"]);
  if (rows !== undefined) figures.push([count(rows), rows === 1 ? "row computed" : "rows computed"]);
  return element("p", { class: "cost" }, figures.map(([figure, what]) =>
    element("span", {}, element("b", {}, figure), ` ${what}`)));
}
