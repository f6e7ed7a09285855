// Live figures: GET /stats each second, while somebody looks.
import { get, keyEvents } from "./api.js";
import { byId, element } from "./dom.js";
import { count, percent, rate } from "./format.js";
import { keyWasTaken } from "./key_form.js";
import { sparkline } from "./sparkline.js";

const SAMPLES = 60;
const SMOOTHED = 3;  // seconds that a figure is the mean of

/** The figures of the time from one answer to the next. */
function sampleOf(before, now) {
  const seconds = Math.max(0.001, now.uptime_seconds - before.uptime_seconds);
  return {
    requests: (now.requests_total - before.requests_total) / seconds,
    tokens: (now.tokens_total - before.tokens_total) / seconds,
    saved: (now.rows_saved_total - before.rows_saved_total) / seconds,
    queue: now.queue.inputs,
  };
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function show(id, value, note, values) {
  const tile = byId(id);
  tile.querySelector("dd").replaceChildren(value);
  tile.querySelector(".tile-note").textContent = note;
  tile.querySelector(".spark").replaceChildren(...(values.length > 1 ? [sparkline(values, SAMPLES)] : []));
}

function draw(stats, samples) {
  const column = (name) => samples.map((sample) => sample[name]);
  const recent = (name) => mean(column(name).slice(-SMOOTHED));
  const saved = mean(column("saved"));
  const tokens = mean(column("tokens"));
  const everSaved = stats.tokens_total > 0 ? stats.rows_saved_total / stats.tokens_total : 0;
  show("live-requests", rate(recent("requests")), `${count(stats.requests_total)} so far`, column("requests"));
  show("live-tokens", rate(recent("tokens")), `${count(stats.tokens_total)} so far`, column("tokens"));
  show("live-saved", percent(tokens > 0 ? saved / tokens : everSaved),
    tokens > 0 ? "in the last minute" : "since the start",
    samples.map((sample) => (sample.tokens > 0 ? sample.saved / sample.tokens : 0)));
  show("live-queue", count(stats.queue.inputs), `${count(stats.queue.tokens)} tokens wait`, column("queue"));
  byId("live").hidden = false;
}

/** `onStats(stats)` gets each answer. */
export function setUpLive(onStats) {
  let samples = [];
  let before = null;
  let watch = 0;  // goes up when polling begins anew: what an older watch still awaits is dropped

  async function poll(mine) {
    try {
      const stats = await (await get("stats")).json();
      if (mine !== watch) return;
      if (before && stats.uptime_seconds < before.uptime_seconds) samples = [];  // it was started anew
      else if (before) samples = [...samples, sampleOf(before, stats)].slice(-SAMPLES);
      before = stats;
      draw(stats, samples);
      byId("live-state").textContent = "";
      keyWasTaken();
      onStats(stats);
    } catch (error) {
      if (mine !== watch) return;
      byId("live").hidden = true;
      if ([401, 403, 404].includes(error.status)) return;  // nothing to see, unless with another key
      byId("live-state").textContent = error.message;
    }
    setTimeout(() => mine === watch && poll(mine), 1000);
  }
  const begin = () => {
    ++watch;
    before = null;  // the time in between was not watched
    if (!document.hidden) poll(watch);
  };
  document.addEventListener("visibilitychange", begin);
  keyEvents.addEventListener("changed", begin);
  begin();
}
