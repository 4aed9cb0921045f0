// The page: views by the fragment of the address, the state of the node to the one that is shown.

import { h, put } from "./dom.js";
import { enter, follow } from "./node.js";
import { age } from "./format.js";
import { History } from "./history.js";
import * as paths from "./views/paths.js";
import * as streams from "./views/streams.js";
import * as promises from "./views/promises.js";
import * as overlay from "./views/overlay.js";
import * as objectives from "./views/objectives.js";
import * as video from "./views/video.js";

const root = document.documentElement;
const VIEWS = root.dataset.shows === "video" ? { video } : { paths, streams, promises, overlay, objectives };
const FIRST = Object.keys(VIEWS)[0];
const alerts = document.getElementById("alert");
const main = document.getElementById("view");
const record = new History();
let shown = null;
let newest = null;

/** Time for which the reason of a failure is shown, in ms. */
const HELD_MS = 8000;
let heldUntil = 0;

function showAlert(text) {
  alerts.hidden = text === null;
  put(alerts, text ?? "");
}

/** Shows why something that a view asked for failed. */
function alert(text) {
  heldUntil = performance.now() + HELD_MS;
  showAlert(text);
}

/** Shows why there are no states, or with null that they come. */
function fault(text) {
  if (text === null && performance.now() < heldUntil) return;
  showAlert(text);
}

function show() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : FIRST;
  shown?.drop?.();
  main.replaceChildren();
  shown = VIEWS[name].mount(main, { alert });
  document.title = `${VIEWS[name].title} – Anabranch`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (newest) shown.update(newest, record);
}

/** Who is shown, in words. */
function named(state) {
  if (state.video) return `${state.video.kind === "origin" ? "Origin" : "Proxy"} of stored video, version ${state.version}, up for ${age(state.video.uptime_s)}`;
  const node = state.status.find((row) => row.kind === "node");
  const sessions = state.status.filter((row) => row.kind === "session").length;
  return `Node ${node.node.slice(0, 12)}…, version ${state.version}, up for ${age(node.uptime_s)}, ${sessions} ${sessions === 1 ? "session" : "sessions"}`;
}

function receive(state) {
  newest = state;
  if (!state.video) record.add(state);
  put(document.getElementById("node"), named(state));
  if (!document.hidden) shown.update(state, record);
}

function theme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* a private window */ }
}

let kept = null;
try { kept = localStorage.getItem("theme"); } catch { /* a private window */ }
theme(kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
document.getElementById("views").append(...Object.entries(VIEWS).map(([name, view]) => h("li", {}, h("a", { href: `#${name}` }, view.title))));
addEventListener("hashchange", () => { if (location.hash.slice(1) in VIEWS) show(); });

let refused = null;
try { await enter(FIRST); } catch (error) { refused = error.message; }
show();
follow(receive, (text) => fault(refused !== null && newest === null ? refused : text));
