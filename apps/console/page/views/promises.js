// Promises: what was promised, refused, warned of and withdrawn; and what would be promised.

import { h, put, table } from "../dom.js";
import { ask } from "../node.js";
import { repeat } from "../timer.js";
import { clock, count, offers, percent, rate, time } from "../format.js";

export const title = "Promises";

const PERIOD_MS = 1000;
const EVENTS_SHOWN = 200;
const WORDS = { waits: ["warn", "waits"], promised: ["good", "promised"], warned: ["warn", "warned"], withdrawn: ["bad", "withdrawn"], changed: ["soft", "changed"], closed: ["soft", "closed"] };

const COLUMNS = [
  { title: "Time", text: (event) => clock(event.unix_ms) },
  { title: "Stream", text: (event) => event.label || event.stream },
  { title: "Peer", text: (event) => event.peer },
  {
    title: "Event", cell: (cell, event) => {
      const [kind, words] = WORDS[event.event] ?? ["soft", event.event];
      cell.className = kind === "soft" ? "soft" : `state ${kind}`;
      put(cell, words);
    },
  },
  { title: "Asked", text: (event) => event.asked },
  { title: "Reason", text: (event) => event.text, kind: "text" },
  { title: "Kept", text: (event) => count(event.windows_kept), kind: "number" },
  { title: "Broken", text: (event) => count(event.windows_broken), kind: "number" },
];

// Positions of the slider are steps of a twentieth of a decade, from 10 kbit/s.
const rateOf = (step) => 1e4 * 10 ** (step / 20);
const PROBABILITIES = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
const LIFETIMES = [null, 50, 100, 200, 500, 1000, 2000, 5000];

export function mount(root, context) {
  const events = table("Events of promises, newest first", COLUMNS, "Nothing was promised or refused yet.");
  root.append(whatIf(context), h("div", { class: "card" }, events.element));
  const drop = repeat(PERIOD_MS, async () => {
    try {
      const rows = await ask({ show: "promise_history" });
      const newest = rows.filter((row) => row.kind === "promise_event").slice(-EVENTS_SHOWN).reverse();
      events.update(newest.map((row, index) => ({ ...row, key: `${row.unix_ms} ${row.stream} ${row.event} ${newest.length - index}` })), (row) => row.key);
    } catch (error) { context.alert(error.message); }
  });
  return { update() {}, drop };
}

function whatIf(context) {
  const answer = h("div", { "aria-live": "polite" });
  const slider = (label, most, value, words) => {
    const shown = h("output", {}, words(value));
    const input = h("input", { type: "range", min: 0, max: most, step: 1, value, input: () => { put(shown, words(input.valueAsNumber)); later(); } });
    return { input, element: h("label", {}, h("span", {}, `${label}: `, shown), input) };
  };
  const speed = slider("Rate", 120, 46, (step) => rate(rateOf(step)));
  const sure = slider("Probability", PROBABILITIES.length - 1, 3, (index) => percent(PROBABILITIES[index]));
  const life = slider("Lifetime of a message", LIFETIMES.length - 1, 0, (index) => LIFETIMES[index] === null ? "none" : time(LIFETIMES[index]));
  let timer = null;
  const later = () => { clearTimeout(timer); timer = setTimeout(run, 200); };
  const run = async () => {
    const spec = {
      label: "what if",
      guarantee: { rate: `${Math.round(rateOf(speed.input.valueAsNumber))} bit/s`, probability: `${PROBABILITIES[sure.input.valueAsNumber] * 100} %` },
    };
    const lifetime = LIFETIMES[life.input.valueAsNumber];
    if (lifetime !== null) spec.lifetime = `${lifetime} ms`;
    try {
      const rows = await ask({ show: "admit", spec });
      answer.replaceChildren(...rows.filter((row) => row.kind === "answer").map((row) => answered(row, rows)));
      if (answer.childElementCount === 0) answer.append(h("p", { class: "empty" }, "No session is open, so there is nobody to promise to."));
    } catch (error) { answer.replaceChildren(h("p", { class: "bad state" }, error.message)); }
  };
  later();
  return h("section", { class: "card" },
    h("h2", {}, "What if a stream asked now"),
    h("form", { submit: (event) => event.preventDefault() }, speed.element, sure.element, life.element), answer);
}

function answered(row, rows) {
  const instead = offers(row);
  const paths = rows.filter((path) => path.kind === "path" && path.session === row.session);
  return h("div", {},
    h("p", { class: `state ${row.is_promised ? "good" : "bad"}` }, `${row.session}: ${row.is_promised ? "would be promised" : "would be refused"}`),
    h("p", {}, row.answer),
    paths.length > 1 ? h("ul", {}, paths.map((path) => h("li", {}, `${rate(path.rate_bps)} on ${path.channel} to ${path.remote}`))) : null,
    instead.length ? h("p", {}, `It could be promised instead: ${instead.join("; ")}.`) : null);
}
