// Requests to this server, with the key that the visitor typed. Addresses are relative to the page, so that
// it works behind a proxy that serves it below a path.

const KEY_NAME = "espalier-api-key";

/** "changed": another key is in use. "refused": an answer was 401; the visitor should type one. */
export const keyEvents = new EventTarget();

export const apiKey = () => sessionStorage.getItem(KEY_NAME) ?? "";

export function setApiKey(key) {
  if (key) sessionStorage.setItem(KEY_NAME, key);
  else sessionStorage.removeItem(KEY_NAME);
  keyEvents.dispatchEvent(new Event("changed"));
}

/** An answer that is an error, or none at all (status 0); the message is fit to be shown. */
export class ApiFailure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The Response, whatever its status. Throws an ApiFailure if there is none. */
export async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const fields = new Headers(headers);
  if (apiKey()) fields.set("Authorization", `Bearer ${apiKey()}`);
  let response;
  try {
    response = await fetch(path, { method, body, headers: fields, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiFailure(0, "The server does not answer. Is it running?");
  }
  if (response.status === 401) keyEvents.dispatchEvent(new Event("refused"));
  return response;
}

async function messageOf(response) {
  try {
    const answer = await response.json();
    return answer.error?.message ?? answer.error ?? answer.detail;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

/** GET of a text or JSON: the Response, if it is a success. */
export async function get(path, options) {
  const response = await send(path, options);
  if (!response.ok) throw new ApiFailure(response.status, await messageOf(response));
  return response;
}

/**
 * POST of JSON. What comes back: `answer`, and what it cost: `milliseconds` (`onServer`: by its own account,
 * else until the answer was here), `tokens`, `rows` (undefined where it does not say).
 */
export async function post(path, request, signal) {
  const began = performance.now();
  const response = await send(path, {
    method: "POST",
    body: JSON.stringify(request),
    headers: { "Content-Type": "application/json" },
    signal,
  });
  if (!response.ok) throw new ApiFailure(response.status, await messageOf(response));
  const answer = await response.json();
  const figure = (name) => {
    const text = response.headers.get(name);
    return text === null || Number.isNaN(Number(text)) ? undefined : Number(text);
  };
  const onServer = figure("x-total-time");
  return {
    answer,
    onServer: onServer !== undefined,
    milliseconds: onServer ?? performance.now() - began,
    tokens: figure("x-espalier-tokens") ?? answer.usage?.prompt_tokens,
    rows: figure("x-espalier-new-rows") ?? answer.trie?.rows,
  };
}
