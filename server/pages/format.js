// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** 12 345; with no-break spaces, as the documentation writes them. */
export const count = (number) => whole.format(number).replaceAll(",", "\u202f");

/** "1 document", "3 documents". */
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** For figures that change: 0.4, 12, 1.2K. */
export const rate = (number) => (number < 1000 ? String(Number(number.toPrecision(2))) : short.format(number));

/** Whole ones; what is not all, or not nothing, is not called so. */
export function percent(share) {
  const rounded = Math.round(100 * share);
  const close = (rounded === 100 && share < 1) || (rounded === 0 && share > 0);
  return `${close ? (rounded === 0 ? "< 1" : "> 99") : rounded}\u202f%`;
}

/** Milliseconds: 0.42 ms, 18 ms, 2.3 s. */
export function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toPrecision(3)}\u202fs`;
  if (milliseconds >= 10) return `${Math.round(milliseconds)}\u202fms`;
  return `${Number(milliseconds.toPrecision(2))}\u202fms`;
}

/** What of a text fits into a line: white space shown as one space. */
export function shortened(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  const characters = [...line];
  return characters.length <= length ? line : characters.slice(0, length - 1).join("") + "…";
}
