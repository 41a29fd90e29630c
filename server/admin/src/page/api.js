// Requests to the HTTP port. The token stays in this module's memory.

let token = null;

export const hasToken = () => token !== null;
export function setToken(given) {
  token = given || null;
}

// A server that lacks a path.
export class MissingPath extends Error {
  constructor(path) {
    super(`this server has no ${path}: a newer version may have it`);
  }
}

// A rejected request. `document` is the body, if it is JSON.
export class Rejection extends Error {
  constructor(status, text, document) {
    super(text || `status ${status}`);
    this.status = status;
    this.document = document;
  }
}

async function open(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, signal, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const text = (await answer.text()).trim();
  let document = null;
  try { document = JSON.parse(text); } catch { /* a plain text */ }
  if (answer.status === 404 && document === null) throw new MissingPath(path.split("?")[0]);
  throw new Rejection(answer.status, document?.error ?? text, document);
}

// Returns the document of a path.
export const get = async (path, signal) => (await open(path, undefined, signal)).json();

// Returns the document that answers a change.
export const post = async (path, body) => (await open(path, body)).json();

export const download = async (path, body) => (await open(path, body)).blob();

// Returns a path with the parameters that have a value.
export function withQuery(path, parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value != null && value !== "");
  if (pairs.length === 0) return path;
  return `${path}${path.includes("?") ? "&" : "?"}${pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
}

// Yields the pages of a list.
export async function* pages(path, signal) {
  let cursor = null;
  do {
    const page = await get(withQuery(path, { cursor }), signal);
    cursor = page.next ?? null;
    yield page;
  } while (cursor !== null);
}

// Yields the documents of a stream of server-sent events. EventSource cannot send the token.
export async function* events(path, signal) {
  const answer = await open(path, undefined, signal);
  const parts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await parts.read();
    if (done) return;
    text += value;
    const found = text.split("\n\n");
    text = found.pop();
    for (const event of found) {
      const line = event.split("\n").find((it) => it.startsWith("data:"));
      if (line) yield JSON.parse(line.slice(5));
    }
  }
}

// Waits, or rejects with the reason of an abort.
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

// Runs `work` and leaves out the error of an aborted view.
export async function untilAborted(signal, work) {
  try {
    await work();
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
