// Streams: what they asked, what they were promised and what they got; bytes of each on each path.

import { filled, h, put, table } from "../dom.js";
import { ask } from "../node.js";
import { bytes, count, offers, percent, time } from "../format.js";

export const title = "Streams";

const keyOf = (stream) => `${stream.session} ${stream.stream}`;
const nameOf = (stream) => stream.label || stream.stream;

function promise(cell, stream) {
  const words = stream.promise === null || stream.promise === undefined ? "none asked"
    : stream.promise_is_warned ? `${stream.promise}, will not be kept` : stream.promise;
  const kind = !stream.promise ? "soft" : stream.promise === "waiting" || stream.promise_is_warned ? "warn" : "good";
  cell.className = kind === "soft" ? "soft" : `state ${kind}`;
  put(cell, words);
}

const kept = (stream) => {
  const all = (stream.windows_kept ?? 0) + (stream.windows_broken ?? 0);
  return all === 0 ? "–" : `${stream.windows_kept} of ${all}, ${percent(stream.windows_kept / all)}`;
};

const COLUMNS = [
  { title: "Stream", text: nameOf, kind: "text" },
  { title: "Peer", text: (stream) => stream.peer_name },
  { title: "Asked", text: (stream) => stream.asked },
  { title: "Promise", cell: promise },
  { title: "Windows kept", text: kept, kind: "number" },
  { title: "Sent", text: (stream) => bytes(stream.sent_bytes), kind: "number" },
  { title: "Received", text: (stream) => bytes(stream.received_bytes), kind: "number" },
  { title: "Waiting", text: (stream) => bytes(stream.backlog_bytes), kind: "number" },
  { title: "Lifetime", text: (stream) => time(stream.lifetime_ms), kind: "number" },
  { title: "Late", text: (stream) => count(stream.expired_adus), kind: "number" },
  { title: "Lost", text: (stream) => count(stream.lost_adus), kind: "number" },
  { title: "Repaired", text: (stream) => bytes(stream.repaired_bytes), kind: "number" },
];

const lifetimeOf = (stream) => stream.lifetime_ms === null ? "none" : `${stream.lifetime_ms} ms`;

/** Asks for changes to a stream; shows why they are refused, and what could be promised instead. */
function change(stream) {
  const act = async (values) => {
    const set = {};
    for (const name of ["rate", "probability"]) if (values[name]) set[name] = values[name];
    if (values.rate === "none") { delete set.rate; set.release = true; }
    if (values.cap !== (stream.cap_bps === null ? "none" : `${stream.cap_bps} bit/s`)) set.cap = values.cap || "none";
    if (values.weight !== `${stream.weight}`) set.weight = Number(values.weight);
    if (values.priority !== `${stream.priority}`) set.priority = values.priority;
    if (values.lifetime !== lifetimeOf(stream)) set.lifetime = values.lifetime || "none";
    try {
      const [row] = await ask({ show: "stream_set", session: stream.session, stream: stream.stream, set });
      if (row.is_changed && !row.why) return null;
      const instead = offers(row);
      return [`${row.is_changed ? "It is changed, and waits for its promise" : "It stays as it was"}: ${row.why}`,
        ...(instead.length ? [`It could be promised instead: ${instead.join("; ")}.`] : [])];
    } catch (error) { return [error.message]; }
  };
  filled(`Change ${nameOf(stream)}, ${stream.stream} of ${stream.session}`, [
    { name: "rate", title: "Rate to guarantee, or none to give the guarantee up", hint: "4 Mbit/s" },
    { name: "probability", title: "In this share of the windows", hint: "95 %" },
    { name: "weight", title: "Weight, 1 to 10,000", value: stream.weight },
    { name: "priority", title: "Priority: scavenger, bulk, normal, urgent, or 0 to 255", value: stream.priority },
    { name: "lifetime", title: "Lifetime of messages sent from now on, or none", value: lifetimeOf(stream) },
    { name: "cap", title: "Limit, or none", value: stream.cap_bps === null ? "none" : `${stream.cap_bps} bit/s` },
  ], act);
}

const ACT = {
  title: "", cell: (cell, stream) => {
    cell.stream = stream;
    if (!cell.firstChild) cell.append(h("button", { type: "button", "aria-label": `Change ${nameOf(stream)}`, click: () => change(cell.stream) }, "Change"));
  },
};

/** Most streams that are shown at once; the search finds the others. */
const SHOWN_MAX = 200;

const NONE = "No stream is open.";
const NOT_FOUND = "No stream matches the search.";

export function mount(root) {
  const streams = table("Streams", [COLUMNS[0], ACT, ...COLUMNS.slice(1)], NONE);
  const left = h("p", { class: "soft", "aria-live": "polite" });
  const search = h("input", { type: "search", id: "search", autocomplete: "off", input: () => { if (newest) update(newest); } });
  const clear = h("button", { type: "button", hidden: true, click: () => { search.value = ""; search.focus(); if (newest) update(newest); } }, "Show all streams");
  let newest = null;
  const matrix = h("div", { class: "card" });
  root.append(h("div", { class: "card" }, h("label", { for: "search" }, "Label, number or peer"), search, clear, left, streams.element), matrix);
  let shown = "";
  let cells = null;
  const update = (state) => {
    newest = state;
    const words = search.value.trim().toLowerCase();
    const found = words ? state.streams.filter((stream) => `${stream.label} ${stream.stream} ${stream.peer_name}`.toLowerCase().includes(words)) : state.streams;
    const listed = found.slice(0, SHOWN_MAX);
    streams.update(listed, keyOf);
    clear.hidden = words === "";
    const none = found.length < state.streams.length ? NOT_FOUND : NONE;
    put(streams.none, none);
    const more = found.length - listed.length + state.streamsLeftOut;
    put(left, more ? `${more} more streams are not listed; the search finds those that the node tells of.` : "");
    const paths = state.paths;
    const now = paths.map((path) => `${path.session} ${path.channel}`).join();
    if (now !== shown) {
      shown = now;
      cells = table("Bytes at the peer by stream and path", [
        { title: "Stream", text: nameOf, kind: "text" },
        ...paths.map((path) => ({
          title: `${path.interface ?? path.remote}, ${path.channel}`, kind: "number", cell: (cell, stream) => share(cell, stream, path),
        })),
      ], none);
      matrix.replaceChildren(cells.element);
    }
    matrix.hidden = paths.length === 0;
    if (!cells) return;
    cells.update(listed, keyOf);
    put(cells.none, none);
  };
  return { update };
}

function share(cell, stream, path) {
  if (stream.session !== path.session) { put(cell, ""); return; }
  const sent = stream.acked_by_channel_bytes ?? {};
  const own = sent[path.channel] ?? 0;
  const all = Object.values(sent).reduce((sum, value) => sum + value, 0);
  cell.className = "number shade";
  cell.style.setProperty("--part", `${all ? Math.round(100 * own / all) : 0}%`);
  put(cell, own ? bytes(own) : "–");
}
