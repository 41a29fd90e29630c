/** Signals that give calls up and end observers. */

/** Listens once to each signal, however many calls and observers of a client share it. */
export class Signals {
  readonly #shared = new Map<AbortSignal, { actions: Map<unknown, () => void>; onAbort: () => void }>();

  /** Has an action run when the signal fires; `key` is for {@link delete}. */
  add(signal: AbortSignal, key: unknown, action: () => void): void {
    let shared = this.#shared.get(signal);
    if (shared === undefined) {
      const actions = new Map<unknown, () => void>();
      const onAbort = () => {
        this.#shared.delete(signal);
        actions.forEach((action) => action());
      };
      shared = { actions, onAbort };
      this.#shared.set(signal, shared);
      signal.addEventListener("abort", onAbort, { once: true });
    }
    shared.actions.set(key, action);
  }

  delete(signal: AbortSignal, key: unknown): void {
    const shared = this.#shared.get(signal);
    if (shared?.actions.delete(key) && shared.actions.size === 0) {
      this.#shared.delete(signal);
      signal.removeEventListener("abort", shared.onAbort);
    }
  }
}
