// The page at `/docs`: renders this server's /openapi.json.
import { ApiFailure, get, keyEvents } from "./api.js";
import { byId, element } from "./dom.js";
import { keyWasTaken, setUpKeyForm } from "./key_form.js";
import { inline, markdown } from "./markdown.js";
import { resolve, schemaView } from "./schema.js";
import { tryForm } from "./try_it.js";

const METHODS = ["get", "post", "put", "patch", "delete", "head", "options"];

/** [{tag, description, operations: [{id, method, path, operation, parameters}]}], in the document's order. */
function operationsByTag(root) {
  const groups = new Map((root.tags ?? []).map((tag) =>
    [tag.name, { tag: tag.name, description: tag.description, operations: [] }]));
  for (const [path, item] of Object.entries(root.paths ?? {})) {
    const shared = resolve(root, item).value;
    for (const method of METHODS.filter((name) => shared[name])) {
      const operation = shared[method];
      const tag = operation.tags?.[0] ?? "Other";
      if (!groups.has(tag)) groups.set(tag, { tag, operations: [] });
      const own = (operation.parameters ?? []).map((parameter) => resolve(root, parameter).value);
      const inherited = (shared.parameters ?? []).map((parameter) => resolve(root, parameter).value)
        .filter((above) => !own.some((one) => one.name === above.name && one.in === above.in));
      groups.get(tag).operations.push({
        id: operation.operationId ?? `${method}-${path.replace(/\W+/g, "-")}`,
        method: method.toUpperCase(), path, operation, parameters: [...inherited, ...own],
      });
    }
  }
  return [...groups.values()].filter((group) => group.operations.length > 0);
}

const badge = (method) => element("span", { class: `method ${method.toLowerCase()}` }, method);

/** A path that may break after its slashes. */
const breakable = (path) => path.split(/(?<=\/)/).flatMap((part) => [part, element("wbr")]);

function contentView(root, content) {
  return Object.entries(content ?? {}).map(([type, media]) => element("div", {},
    element("p", { class: "media" }, type),
    media.schema ? schemaView(root, media.schema) : null,
    [media.example !== undefined ? { value: media.example } : null, ...Object.values(media.examples ?? {})]
      .filter(Boolean).map((example) => exampleView(resolve(root, example).value))));
}

function exampleView({ summary, value }) {
  return element("details", { class: "below" },
    element("summary", {}, summary ? `Example: ${summary}` : "Example"),
    element("pre", { class: "code", tabindex: "0", role: "region", "aria-label": "Example" },
      typeof value === "string" ? value : JSON.stringify(value, null, 2)));
}

function parametersView(root, parameters) {
  if (parameters.length === 0) return [];
  const properties = Object.fromEntries(parameters.map((parameter) => [`${parameter.name} (${parameter.in})`,
    { description: parameter.description, ...resolve(root, parameter.schema).value }]));
  const required = parameters.filter((parameter) => parameter.required)
    .map((parameter) => `${parameter.name} (${parameter.in})`);
  return [element("h4", {}, "Parameters"), schemaView(root, { type: "object", properties, required })];
}

function responsesView(root, responses) {
  return Object.entries(responses ?? {}).map(([status, reference]) => {
    const { value } = resolve(root, reference);
    const headers = Object.entries(value.headers ?? {}).map(([name, header]) => {
      const { description } = resolve(root, header).value;
      return element("li", {}, element("code", {}, name), description ? [": ", ...inline(description)] : null);
    });
    return element("details", { class: "response" },
      element("summary", {}, element("b", { class: `status-${status[0]}` }, status), " ",
        ...inline((value.description ?? "").replace(/\s+/g, " "))),
      headers.length ? element("ul", { class: "headers" }, headers) : null,
      contentView(root, value.content));
  });
}

function operationView(root, { id, method, path, operation, parameters }) {
  const body = resolve(root, operation.requestBody).value;
  const open = (operation.security ?? root.security ?? []).every((need) => Object.keys(need).length === 0);
  return element("section", { class: "card operation", id, "aria-labelledby": `${id}-title` },
    element("h3", { id: `${id}-title` }, badge(method), " ", element("code", {}, breakable(path))),
    element("p", { class: "summary" }, ...inline(operation.summary ?? ""),
      open ? element("span", { class: "open" }, "no key needed") : null),
    markdown(operation.description),
    parametersView(root, parameters),
    body.content ? [element("h4", {}, "Body"), markdown(body.description), contentView(root, body.content)] : null,
    element("h4", {}, "Answers"), responsesView(root, operation.responses),
    tryForm(root, method, path, operation, parameters));
}

function draw(root) {
  document.title = `${root.info.title} · API reference`;
  byId("version").textContent = `version ${root.info.version}`;
  const groups = operationsByTag(root);
  byId("contents").replaceChildren(...groups.map((group) => element("div", {},
    element("p", {}, group.tag),
    element("ul", {}, group.operations.map(({ id, method, path }) => element("li", {},
      element("a", { href: `#${encodeURIComponent(id)}` }, badge(method), " ",
        element("span", {}, breakable(path)))))))));
  byId("operations").replaceChildren(
    element("div", { class: "about" }, markdown(root.info.description)),
    ...groups.flatMap((group) => [element("h2", {}, group.tag), ...markdown(group.description),
      ...group.operations.map((one) => operationView(root, one))]));
  // The browser looked for the address's #fragment before there was anything.
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

async function load() {
  const state = byId("docs-state");
  try {
    const root = await (await get("openapi.json")).json();
    draw(root);
    state.textContent = "";
    keyWasTaken();
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    state.className = "status failed";
    state.textContent = error.status === 404 ? "This server has no description of its API." : error.message;
  }
}

setUpKeyForm();
let drawn = false;
keyEvents.addEventListener("changed", () => drawn || load());
await load();
drawn = byId("operations").childElementCount > 0;
