// JSON Schema, as OpenAPI 3.1 uses it: what a reader sees of one, and an example of a value.
import { element } from "./dom.js";
import { inline } from "./markdown.js";

/** Follows `$ref`s within `root`; {value, name}: the name is the last reference's, "" without one. */
export function resolve(root, value) {
  let name = "";
  for (let steps = 0; value?.$ref !== undefined; ++steps) {
    if (steps > 32 || !value.$ref.startsWith("#/")) return { value: {}, name: value.$ref };
    const path = value.$ref.slice(2).split("/").map((part) =>
      decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
    name = path.at(-1);
    const { $ref, ...beside } = value;
    value = { ...path.reduce((node, key) => node?.[key], root), ...beside };
  }
  return { value: value ?? {}, name };
}

/** A schema with its `allOf` taken into it. */
function merged(root, schema) {
  const { value, name } = resolve(root, schema);
  if (!value.allOf) return { value, name };
  const { allOf, ...own } = value;
  const all = [...allOf.map((part) => merged(root, part).value), own];
  return {
    name,
    value: Object.assign({}, ...all, {
      // Its own first.
      properties: Object.assign({}, own.properties, ...all.map((part) => part.properties)),
      required: all.flatMap((part) => part.required ?? []),
    }),
  };
}

const choicesOf = (schema) => schema.oneOf ?? schema.anyOf;

/** "array of (string or Document)", "integer or null". */
function typeText(root, schema, depth = 0) {
  const { value, name } = merged(root, schema);
  if (value === true || depth > 4) return "anything";
  if (value.const !== undefined) return JSON.stringify(value.const);
  const choices = choicesOf(value);
  if (choices) return choices.map((choice) => typeText(root, choice, depth + 1)).join(" or ");
  const types = [value.type ?? (value.properties ? "object" : value.items ? "array" : "anything")].flat();
  return types.map((type) => {
    if (type === "array" && value.items) {
      const entries = typeText(root, value.items, depth + 1);
      return `array of ${entries.includes(" or ") ? `(${entries})` : entries}`;
    }
    if (type === "object" && name) return name;
    return type;
  }).join(" or ");
}

/** "1 to 2 048", "at least 1 entries", …: the limits that a schema sets, in words. */
function limits(schema) {
  const range = (low, limit, unit) => {
    const high = limit > Number.MAX_SAFE_INTEGER ? undefined : limit;  // all that a number can be
    if (low === undefined && high === undefined) return null;
    const text = low === undefined ? `at most ${high}` : high === undefined ? `at least ${low}` : `${low} to ${high}`;
    return unit ? `${text} ${unit}` : text;
  };
  const words = [
    range(schema.minimum, schema.maximum),
    schema.exclusiveMinimum !== undefined ? `more than ${schema.exclusiveMinimum}` : null,
    schema.exclusiveMaximum !== undefined ? `less than ${schema.exclusiveMaximum}` : null,
    range(schema.minItems, schema.maxItems, "entries"),
    range(schema.minLength, schema.maxLength, "characters"),
    schema.pattern ? `matches ${schema.pattern}` : null,
    schema.format ?? null,
  ];
  return words.filter(Boolean).join(", ");
}

const literal = (value) => element("code", {}, JSON.stringify(value));
const listed = (values) => values.flatMap((value, index) => (index ? [", ", literal(value)] : [literal(value)]));

/** The line of one value: its name, its type, and what else is said of it. */
function headOf(root, schema, { name, required } = {}) {
  const { value } = merged(root, schema);
  const said = limits(value);
  return [
    element("div", { class: "field-head" },
      name === undefined ? null : element("code", { class: "field-name" }, name),
      element("span", { class: "type" }, typeText(root, schema)),
      required ? element("span", { class: "required" }, "required") : null,
      value.deprecated ? element("span", { class: "required" }, "deprecated") : null,
      said ? element("span", { class: "limits" }, said) : null,
      value.default !== undefined ? element("span", { class: "limits" }, "default ", literal(value.default)) : null),
    value.enum ? element("p", { class: "limits" }, "One of ", listed(value.enum)) : null,
    value.description ? element("p", { class: "described" }, inline(value.description.replace(/\s+/g, " "))) : null,
    value.examples?.length
      ? element("p", { class: "limits" }, "For example ", listed(value.examples.slice(0, 3))) : null,
  ];
}

/** What lies below a schema: properties, entries, choices; null if nothing does. `within`: names above it. */
function bodyOf(root, schema, within) {
  const { value, name } = merged(root, schema);
  if (name && within.includes(name)) return element("p", { class: "limits" }, `${name}, as above`);
  const below = name ? [...within, name] : within;
  if (below.length > 12) return null;
  const choices = choicesOf(value)?.filter((choice) => bodyOf(root, choice, below) !== null) ?? [];
  const additional = typeof value.additionalProperties === "object" ? value.additionalProperties : null;
  const properties = Object.entries(value.properties ?? {});
  const parts = [];
  if (properties.length > 0 || additional) {
    parts.push(element("ul", { class: "fields" },
      properties.map(([key, property]) =>
        fieldItem(root, property, { name: key, required: value.required?.includes(key) }, below)),
      additional ? fieldItem(root, additional, { name: "(any name)" }, below) : null));
  }
  for (const choice of choices) {
    parts.push(element("div", { class: "variant" },
      element("p", { class: "type" }, `If it is ${typeText(root, choice)}:`), bodyOf(root, choice, below)));
  }
  if (value.items) {
    const items = bodyOf(root, value.items, below);
    if (items) parts.push(element("p", { class: "limits" }, "Each entry:"), items);
  }
  return parts.length > 0 ? element("div", {}, parts) : null;
}

function fieldItem(root, schema, about, within) {
  const below = bodyOf(root, schema, within);
  return element("li", {}, headOf(root, schema, about),
    below && element("details", { class: "below" }, element("summary", {}, `Inside ${about.name}`), below));
}

/** What a reader sees of a schema: its own line, then what lies below. */
export function schemaView(root, schema) {
  const below = bodyOf(root, schema, []);
  const { value } = merged(root, schema);
  return element("div", { class: "schema" },
    below && !value.description && value.type === "object" ? null : headOf(root, schema), below);
}

/** A value that fits the schema, from its examples and defaults where it has some. */
export function exampleOf(root, schema, depth = 0) {
  const { value } = merged(root, schema);
  for (const given of [value.example, value.examples?.[0], value.const, value.default, value.enum?.[0]]) {
    if (given !== undefined) return given;
  }
  if (depth > 6) return null;
  const choices = choicesOf(value);
  if (choices) return exampleOf(root, choices[0], depth + 1);
  const type = [value.type ?? (value.properties ? "object" : "string")].flat()[0];
  if (type === "object") {
    const wanted = Object.entries(value.properties ?? {}).filter(([key, property]) =>
      value.required?.includes(key) || resolve(root, property).value.example !== undefined);
    return Object.fromEntries(wanted.map(([key, property]) => [key, exampleOf(root, property, depth + 1)]));
  }
  if (type === "array") return [exampleOf(root, value.items ?? {}, depth + 1)];
  return { integer: value.minimum ?? 1, number: value.minimum ?? 1, boolean: true, null: null }[type] ?? "text";
}
