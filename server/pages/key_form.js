// The field for the API key: shown once the server asks for one. The key stays in this tab
// (sessionStorage) and goes to this server alone.
import { apiKey, keyEvents, setApiKey } from "./api.js";
import { byId } from "./dom.js";

export function showKeyForm() {
  byId("key-form").hidden = false;
}

export function setUpKeyForm() {
  const form = byId("key-form");
  const field = byId("key");
  const note = byId("key-note");
  field.value = apiKey();
  form.hidden = !field.value;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    note.textContent = "";
    field.removeAttribute("aria-invalid");
    setApiKey(field.value.trim());
  });
  keyEvents.addEventListener("refused", () => {
    showKeyForm();
    field.setAttribute("aria-invalid", "true");
    note.textContent = apiKey()
      ? "The server does not know this key."
      : "This server asks for a key. It stays in this browser tab.";
  });
}

/** An answer came: the key, if there is one, was taken. */
export function keyWasTaken() {
  byId("key").removeAttribute("aria-invalid");
  byId("key-note").textContent = "";
}
