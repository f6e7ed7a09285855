// The little Markdown that descriptions use: paragraphs, lists, `code`, **bold**, fenced blocks. As elements,
// never as markup.
import { element } from "./dom.js";

/** A line's parts: text and elements. */
export function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (part.startsWith("`") && part.length > 2) return element("code", {}, part.slice(1, -1));
    if (part.startsWith("**") && part.length > 4) return element("b", {}, part.slice(2, -2));
    return part;
  });
}

function block(text) {
  if (text.startsWith("```")) {
    return element("pre", { tabindex: "0" }, text.replace(/^```.*\n/, "").replace(/\n?```$/, ""));
  }
  const lines = text.split("\n");
  if (lines.every((line) => /^\s*[*-] |^\s+\S/.test(line))) {
    const items = text.split(/^\s*[*-] /m).map((item) => item.trim()).filter(Boolean);
    return element("ul", {}, items.map((item) => element("li", {}, inline(item.replace(/\s*\n\s*/g, " ")))));
  }
  return element("p", {}, inline(lines.join(" ")));
}

/** Elements for a whole description. */
export function markdown(text) {
  const blocks = (text ?? "").trim().match(/```[\s\S]*?```|[^\n](?:(?!\n\s*\n|\n```)[\s\S])*/g) ?? [];
  return blocks.map((part) => block(part.trim()));
}
