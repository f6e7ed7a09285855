// Several texts in one field: a line each, or, where there are blank lines, a paragraph each.
import { counted } from "./format.js";

export function textsOf(value) {
  const lines = value.replaceAll("\r\n", "\n").trim();
  const byParagraph = /\n[ \t]*\n/.test(lines);
  return lines.split(byParagraph ? /\n(?:[ \t]*\n)+/ : "\n").map((text) => text.trim()).filter(Boolean);
}

/** Keeps `note` saying how many texts `field` holds, and how they were told apart. */
export function countTexts(field, note, noun) {
  const show = () => {
    const byParagraph = /\n[ \t]*\n/.test(field.value.trim());
    note.textContent = counted(textsOf(field.value).length, noun) +
      (byParagraph ? ", told apart by blank lines" : ", one a line");
  };
  field.addEventListener("input", show);
  show();
}
