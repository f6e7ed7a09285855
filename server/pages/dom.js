// Elements from code. No text ever becomes markup: what clients send or models answer is set as text.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "style") {
      // One property at a time: the content security policy forbids the attribute.
      for (const [property, to] of Object.entries(value)) node.style.setProperty(property, to);
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** element("p", {class: "note", style: {width: "3%"}, on: {click: …}}, "text", otherElement) */
export const element = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same of SVG. */
export const drawing = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** A table whose first column names the row. `columns`: [{name, number: bool}], `rows`: arrays of text. */
export function table(caption, columns, rows) {
  const kind = (index) => (columns[index].number ? "number" : null);
  return element("table", { class: "plain" },
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, columns.map((column, index) =>
      element("th", { scope: "col", class: kind(index) }, column.name)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, index) =>
      element(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: kind(index) }, cell))))));
}

/** A region that scrolls by itself, also from the keyboard. */
export const scroller = (label, ...children) =>
  element("div", { class: "scroller", role: "region", tabindex: "0", "aria-label": label }, ...children);

/** "As a table" and the like: made when it is opened for the first time. */
export function disclosure(summary, make) {
  const node = element("details", { class: "alternative" }, element("summary", {}, summary));
  node.addEventListener("toggle", () => node.append(make()), { once: true });
  return node;
}
