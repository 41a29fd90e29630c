// Dialogs: questions before changes, with their outcome, and the help.
import { button, element, notice } from "./dom.js";
import { hasToken, MissingPath, Rejection } from "./api.js";
import { figures } from "./figures.js";

let changes = 0;

function show(title, ...content) {
  const heading = element("h2", { id: `dialog-${(changes += 1)}` }, title);
  const dialog = element("dialog", { "aria-labelledby": heading.id, onclose: close }, heading, content);
  // The button that opened the dialog may be gone.
  function close() {
    dialog.remove();
    if (document.activeElement === document.body) document.getElementById("title")?.focus();
  }
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Asks before a change, runs `work` with the values of the fields, and shows its outcome.
// fields: [{ name, title, value, kind?: "text" | "area" | "choice", choices? }]
export function askChange({ title, meaning, fields = [], submit = title, isDangerous = false, work, done = () => {} }) {
  const outcome = notice();
  const inputs = fields.map(fieldOf);
  const confirm = element("button", { class: isDangerous && "danger" }, submit);
  const close = button("Cancel", () => dialog.close(), { autofocus: fields.length === 0 });
  const form = element("form", {
    async onsubmit(event) {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(form));
      confirm.disabled = true;
      outcome.say("The change is sent.");
      try {
        outcome.say(await work(values), "done");
        confirm.hidden = true;
        close.textContent = "Close";
        close.focus();
        done();
      } catch (error) {
        outcome.fail(explained(error));
        confirm.disabled = false;
      }
    },
  }, [meaning].flat().map((text) => element("p", {}, text)), inputs, outcome.node, element("p", { class: "choices" }, close, confirm));
  if (!hasToken()) {
    confirm.disabled = true;
    outcome.say(figures.status?.has_token === false ? "The server has no token, so nothing can be changed: start it with --http-token-file." : "First type a token with the right to change this.", "failed");
  }
  const dialog = show(title, form);
  dialog.classList.add("change");
}

function fieldOf({ name, title, value = "", kind = "text", choices = [] }) {
  const id = `field-${name}`;
  const common = { id, name, spellcheck: "false", autocomplete: "off", autocapitalize: "off" };
  const input = {
    text: () => element("input", { ...common, value }),
    area: () => element("textarea", { ...common, rows: 8, value }),
    choice: () => element("select", { id, name }, choices.map(([its, text]) => element("option", { value: its, selected: its === value }, text))),
  }[kind]();
  return element("p", { class: "field" }, element("label", { for: id }, title), input);
}

// Adds to an error what is known about the outcome.
function explained(error) {
  if (error instanceof MissingPath) return error;
  // fetch fails with a TypeError; other errors come from the check of the fields.
  if (error instanceof TypeError) return new Error(`no answer (${error.message}): the change may or may not have happened`);
  if (!(error instanceof Rejection)) return new Error(`nothing was sent: ${error.message}`);
  if (error.status === 409 && error.document && "version" in error.document) {
    const now = error.document.version;
    return new Error(`nothing was changed: ${now === null ? "the key is absent now" : `the key has version ${now} now`} (${error.message})`);
  }
  if (error.status >= 500) return new Error(`${error.message}: the change may or may not have happened`);
  return new Error(`nothing was changed: ${error.message}`);
}

// Lists the keyboard shortcuts: [[key, meaning]]
export function showHelp(shortcuts, isOn, setOn) {
  const box = element("input", { type: "checkbox", id: "shortcuts-on", checked: isOn, onchange: () => setOn(box.checked) });
  const rows = shortcuts.map(([key, meaning]) => element("div", {}, element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)));
  const dialog = show("Keyboard shortcuts",
    element("dl", { class: "facts" }, rows),
    element("p", {}, box, " ", element("label", { for: "shortcuts-on" }, "Use these shortcuts")),
    element("p", { class: "choices" }, button("Close", () => dialog.close())));
}

export const isDialogOpen = () => document.querySelector("dialog[open]") !== null;
