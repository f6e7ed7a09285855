// "Try it": a form that sends one of the described requests to this server, and shows what comes back.
import { ApiFailure, send } from "./api.js";
import { element } from "./dom.js";
import { count, duration } from "./format.js";
import { keyWasTaken } from "./key_form.js";
import { exampleOf, resolve } from "./schema.js";

const SHOWN_MAX = 100_000;  // characters of an answer

let ids = 0;
const labelled = (text, field) => {
  field.id = `try-${++ids}`;
  return [element("label", { for: field.id }, text), field];
};

/** A request body's content type and an example of it, as text; null if the operation takes none. */
function bodyExample(root, operation) {
  const body = resolve(root, operation.requestBody).value;
  const [type, media] = Object.entries(body.content ?? {})[0] ?? [];
  if (type === undefined) return null;
  const given = Object.values(media.examples ?? {}).map((example) => resolve(root, example).value.value)[0];
  const example = media.example ?? given ?? exampleOf(root, media.schema ?? {});
  return { type, text: typeof example === "string" ? example : JSON.stringify(example, null, 2) };
}

/** The address with the fields filled in; relative to the page. */
function addressOf(path, inputs) {
  const filled = path.replace(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(
    inputs.find(({ parameter }) => parameter.in === "path" && parameter.name === name)?.field.value ?? ""));
  const query = new URLSearchParams(inputs
    .filter(({ parameter, field }) => parameter.in === "query" && field.value !== "")
    .map(({ parameter, field }) => [parameter.name, field.value])).toString();
  return (filled.slice(1) || "./") + (query ? `?${query}` : "");
}

async function shownBody(response) {
  const text = await response.text();
  const shown = (whole) => (whole.length > SHOWN_MAX ? `${whole.slice(0, SHOWN_MAX)}\n…` : whole);
  if (!response.headers.get("content-type")?.includes("json")) return shown(text);
  try {
    return shown(JSON.stringify(JSON.parse(text), null, 2));
  } catch {
    return shown(text);
  }
}

async function showAnswer(place, request) {
  place.replaceChildren(element("p", { class: "status" }, "Working…"));
  const began = performance.now();
  try {
    const response = await send(request.address, request);
    const milliseconds = performance.now() - began;
    if (response.status !== 401) keyWasTaken();
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    const body = await shownBody(response);
    place.replaceChildren(
      element("p", { class: response.ok ? "status" : "status failed" },
        element("b", {}, `${response.status} ${response.statusText}`.trim()),
        ` in ${duration(milliseconds)}, ${count(body.length)} characters`),
      element("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Answer" }, body),
      element("details", {}, element("summary", {}, "Headers"),
        element("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Headers" }, headers)));
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    place.replaceChildren(element("p", { class: "status failed" }, error.message));
  }
}

/** The form of one operation. */
export function tryForm(root, method, path, operation, parameters) {
  const example = bodyExample(root, operation);
  const inputs = parameters.filter((parameter) => parameter.in !== "cookie").map((parameter) => ({
    parameter,
    field: element("input", {
      type: "text", autocomplete: "off", required: parameter.in === "path",
      value: parameter.example ?? (parameter.required ? exampleOf(root, parameter.schema ?? {}) : ""),
    }),
  }));
  const body = example && element("textarea", {
    rows: String(Math.min(16, example.text.split("\n").length + 1)), class: "code", spellcheck: "false",
  }, example.text);
  const answer = element("div", { class: "answer", role: "status" });
  const form = element("form", {},
    inputs.map(({ parameter, field }) => labelled(`${parameter.name} (${parameter.in})`, field)),
    body ? labelled(`Body, ${example.type}`, body) : null,
    element("button", { type: "submit" }, "Send"), answer);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const headers = Object.fromEntries(inputs
      .filter(({ parameter, field }) => parameter.in === "header" && field.value !== "")
      .map(({ parameter, field }) => [parameter.name, field.value]));
    if (body) headers["Content-Type"] = example.type;
    showAnswer(answer, { address: addressOf(path, inputs), method, headers, body: body?.value });
  });
  return element("details", { class: "try" }, element("summary", {}, "Try it"), form);
}
