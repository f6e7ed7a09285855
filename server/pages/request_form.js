// A form that sends one request at a time, and says how it went.
import { ApiFailure, keyEvents } from "./api.js";
import { keyWasTaken } from "./key_form.js";

/**
 * Calls `run(signal)` when the form is sent; what it returns is said aloud in `status`. `run` throws an
 * ApiFailure for what the visitor should read.
 */
export function setUpRequestForm(form, status, run) {
  const button = form.querySelector("button[type=submit]");
  let current = null;
  let refused = false;

  async function start() {
    current?.abort();
    const mine = (current = new AbortController());
    refused = false;
    button.setAttribute("aria-busy", "true");
    status.className = "status";
    status.textContent = "Working…";
    try {
      status.textContent = await run(mine.signal);
      keyWasTaken();
    } catch (error) {
      if (mine !== current) return;  // another request has taken its place
      if (!(error instanceof ApiFailure)) throw error;
      refused = error.status === 401;
      status.className = "status failed";
      status.textContent = error.message;
    } finally {
      if (mine === current) button.removeAttribute("aria-busy");
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  // What was refused for want of a key is sent again with it.
  keyEvents.addEventListener("changed", () => refused && start());
}
