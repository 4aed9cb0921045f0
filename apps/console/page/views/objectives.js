// Objectives: those in force with what they did in the last minute; adding and removing them.

import { confirmed, h, put, table } from "../dom.js";
import { ask } from "../node.js";
import { repeat } from "../timer.js";
import { count } from "../format.js";

export const title = "Objectives";
const PERIOD_MS = 1000;

export function mount(root, context) {
  const remove = async (row) => {
    if (!await confirmed(`Remove objective ${row.objective} of ${row.session}?`, row.text)) return;
    try { await ask({ show: "objective_remove", objective: String(row.objective), session: row.session }); } catch (error) { context.alert(error.message); }
  };
  const list = table("Objectives in force", [
    { title: "Session", text: (row) => row.session }, { title: "Number", text: (row) => String(row.objective), kind: "number" },
    { title: "Name", text: (row) => row.name ?? "–" }, { title: "Text", text: (row) => row.text, kind: "text" },
    { title: "Contexts met", text: (row) => row.contexts === null ? "–" : `${row.contexts_met} of ${row.contexts}`, kind: "number" },
    { title: "Utility", text: (row) => count(row.utility), kind: "number" }, { title: "Faults", text: (row) => row.faults || "none", kind: "text" },
    { title: "", cell: (cell, row) => { if (!cell.firstChild) cell.append(h("button", { type: "button", click: () => remove(row) }, "Remove")); } },
  ], "No objectives are in force.");
  const text = h("textarea", { id: "objective", spellcheck: "false" });
  const result = h("p", { "aria-live": "polite" });
  const add = async (event) => {
    event.preventDefault();
    if (!text.value.trim() || !await confirmed("Apply these objectives in every session?", text.value)) return;
    try {
      const rows = await ask({ show: "objective_add", text: text.value });
      result.className = ""; put(result, `${rows.length} added.`); text.value = "";
    } catch (error) { result.className = "bad state"; put(result, error.message); }
  };
  root.append(h("div", { class: "card" }, list.element),
    h("section", { class: "card" }, h("h2", {}, "Add objectives"),
      h("form", { submit: add }, h("label", { for: "objective" }, "Objectives in HOSE"), text, h("div", { class: "row" }, h("button", {}, "Add"))), result));
  const drop = repeat(PERIOD_MS, async () => {
    try { list.update((await ask({ show: "objectives" })), (row) => `${row.session} ${row.objective}`); } catch (error) { context.alert(error.message); }
  });
  return { update() {}, drop };
}
