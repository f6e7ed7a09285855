// A figure of boxes with text in them, for eyes, pointer and keyboard: the box that is pointed at or has the
// focus is explained below. One tab stop; the arrows walk from box to box.
import { element } from "./dom.js";

/**
 * `boxes`: [{left, width: shares of the figure's width; top, height: pixels; label (what a screen reader says
 * before `text`, which is shown), text, class, detail (a function that returns what is shown below), attributes}]. `go(index, key)` is the box
 * that an arrow key leads to, if any. `role` and `itemRole` are ARIA's.
 */
export function boxFigure({ label, role, itemRole, height, boxes, go, hint }) {
  const detail = element("p", { class: "figure-detail" }, hint);
  let current = 0;
  const nodes = boxes.map((box, index) => element("div", {
    ...box.attributes,
    class: `box ${box.class}`,
    role: itemRole,
    tabindex: index === 0 ? "0" : "-1",
    "data-index": String(index),
    style: {
      left: `${100 * box.left}%`,
      width: `${100 * box.width}%`,
      top: `${box.top}px`,
      height: `${box.height}px`,
    },
  }, element("span", { class: "spoken" }, box.label), box.text ? element("span", { class: "shown" }, box.text) : null));

  const explain = (index) => detail.replaceChildren(...boxes[index].detail());
  const indexOf = (event) => {
    const node = event.target.closest("[data-index]");
    return node ? Number(node.dataset.index) : null;
  };
  const select = (index) => {
    nodes[current].tabIndex = -1;
    nodes[current].setAttribute("aria-selected", "false");
    current = index;
    nodes[current].tabIndex = 0;
    nodes[current].setAttribute("aria-selected", "true");
    explain(current);
  };
  for (const node of nodes) node.setAttribute("aria-selected", "false");

  const plane = element("div", {
    class: "boxes", role, "aria-label": label, style: { height: `${height}px` },
    on: {
      pointerover: (event) => indexOf(event) !== null && explain(indexOf(event)),
      focusin: (event) => indexOf(event) !== null && select(indexOf(event)),
      keydown: (event) => {
        const to = event.key === "Home" ? 0 : event.key === "End" ? nodes.length - 1 : go(current, event.key);
        if (to === undefined || to === null || !nodes[to]) return;
        event.preventDefault();
        nodes[to].focus();
      },
    },
  }, nodes);
  return { plane, detail };
}
