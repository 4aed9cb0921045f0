// Streams: what they asked, what they were promised and what they got; bytes of each on each path.

import { h, put, table } from "../dom.js";
import { bytes, count, percent, time } from "../format.js";

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

export function mount(root) {
  const streams = table("Streams", COLUMNS, "No stream is open.");
  const left = h("p", { class: "soft" });
  const matrix = h("div", { class: "card" });
  root.append(h("div", { class: "card" }, streams.element, left), matrix);
  let shown = "";
  let cells = null;
  return {
    update(state) {
      streams.update(state.streams, keyOf);
      put(left, state.streamsLeftOut ? `${state.streamsLeftOut} more streams are not listed.` : "");
      const paths = state.paths;
      const now = paths.map((path) => `${path.session} ${path.channel}`).join();
      if (now !== shown) {
        shown = now;
        cells = table("Bytes at the peer by stream and path", [
          { title: "Stream", text: nameOf, kind: "text" },
          ...paths.map((path) => ({
            title: `${path.interface ?? path.remote}, ${path.channel}`, kind: "number", cell: (cell, stream) => share(cell, stream, path),
          })),
        ], "No stream is open.");
        matrix.replaceChildren(cells.element);
      }
      matrix.hidden = paths.length === 0;
      cells?.update(state.streams, keyOf);
    },
  };
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
