// The page: the molecule as it comes, and the state of its streams in words.

import { Camera } from "./camera.js";
import { ends, Scene } from "./draw.js";
import { elements, enter, follow, post } from "./feed.js";

const root = document.documentElement;
const canvas = document.getElementById("scene");
const alerts = document.getElementById("alert");
const camera = new Camera();
const newest = [null, null, null];
let scene = null, session = null, isPlaced = false, isDirty = true;
let stateAt = 0, state = null, failure = null, notice = null;

/** Time between two views, and time without a state after which all is stale, in ms. */
const VIEW_MS = 100, SILENT_MS = 2000, AGAIN_MS = 1000;

function put(element, text) { if (element.textContent !== text) element.textContent = text; }

function showAlert() {
  const text = [failure, notice].filter((one) => one !== null).join(" ");
  alerts.hidden = text === "";
  put(alerts, text);
}

function colourOf(name) {
  const text = getComputedStyle(root).getPropertyValue(name).trim().slice(1);
  const six = text.length === 3 ? [...text].map((digit) => digit + digit).join("") : text;
  return [0, 2, 4].map((at) => parseInt(six.slice(at, at + 2), 16) / 255);
}
let colours = null;

function theme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* a private window */ }
  colours = { page: colourOf("--card"), bond1: colourOf("--bond1"), bond2: colourOf("--bond2") };
  isDirty = true;
}
let kept = null;
try { kept = localStorage.getItem("theme"); } catch { /* a private window */ }
theme(kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));

// The view: the source divides bonds by what the picture shows.
let viewTimer = null, lastView = 0, isSending = false, isChanged = false;
function viewChanged() {
  isDirty = true;
  isChanged = true;
  if (viewTimer === null) viewTimer = setTimeout(sendView, Math.max(0, lastView + VIEW_MS - performance.now()));
}
async function sendView() {
  viewTimer = null;
  if (isSending || !isPlaced) return;
  [isSending, isChanged, lastView] = [true, false, performance.now()];
  try { await post("/api/view", { planes: camera.planes() }); } catch (error) { if (error.isRefused) failure = error.message; }
  isSending = false;
  if (isChanged) viewChanged();
}

/** Centre and radius of the atoms; places that are none are left out. */
function extent(places) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (let at = 0; at + 2 < places.length; at += 3) {
    if (!Number.isFinite(places[at] + places[at + 1] + places[at + 2])) continue;
    for (let axis = 0; axis < 3; axis += 1) {
      low[axis] = Math.min(low[axis], places[at + axis]);
      high[axis] = Math.max(high[axis], places[at + axis]);
    }
  }
  if (low[0] > high[0]) return { centre: [0, 0, 0], radius: 10 };
  return { centre: low.map((one, axis) => (one + high[axis]) / 2), radius: Math.hypot(...low.map((one, axis) => high[axis] - one)) / 2 };
}

function whole() {
  if (newest[0] === null) return;
  const { centre, radius } = extent(newest[0].places);
  camera.show(centre, radius);
  isPlaced = true;
  viewChanged();
}
document.getElementById("reset").addEventListener("click", whole);

function receive({ part, number, view, body }) {
  const places = part === 0 ? new Float32Array(body) : ends(body);
  newest[part] = { number, view, places };
  scene?.set(part, places);
  if (part === 0 && !isPlaced) whole();
  isDirty = true;
}

// Keys and mouse.
const KEYS = {
  ArrowLeft: () => camera.turn(-0.1, 0), ArrowRight: () => camera.turn(0.1, 0), ArrowUp: () => camera.turn(0, 0.1), ArrowDown: () => camera.turn(0, -0.1),
  "+": () => camera.zoom(0.85), "=": () => camera.zoom(0.85), "-": () => camera.zoom(1 / 0.85),
  w: () => camera.move(0, 0.05), s: () => camera.move(0, -0.05), a: () => camera.move(-0.05, 0), d: () => camera.move(0.05, 0), r: whole,
};
canvas.addEventListener("keydown", (event) => {
  const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  act();
  viewChanged();
});
canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
canvas.addEventListener("pointermove", (event) => {
  if (!canvas.hasPointerCapture(event.pointerId)) return;
  const [right, down] = [event.movementX / canvas.clientHeight, event.movementY / canvas.clientHeight];
  if (event.shiftKey) camera.move(-right, down);
  else camera.turn(-4 * right, 4 * down);
  viewChanged();
});
canvas.addEventListener("wheel", (event) => { event.preventDefault(); camera.zoom(Math.exp(event.deltaY * 0.001)); viewChanged(); }, { passive: false });
new ResizeObserver(() => { camera.aspect = canvas.clientWidth / Math.max(1, canvas.clientHeight); viewChanged(); }).observe(canvas);

// The state in words.
const ms = (micros) => micros < 10_000 ? (micros / 1000).toFixed(1) : String(Math.round(micros / 1000));
function age(part) {
  if (part.age_us === null) return "–";
  return `${ms(part.age_us)} ± ${ms(part.age_error_us)} ms`;
}
function word(part, isSilent) {
  if (part.frame === null) return ["no frames yet", "warn"];
  if (isSilent || part.is_stale) return ["stale", "bad"];
  return ["live", "good"];
}
function rate(bps) { return bps >= 1e6 ? `${(bps / 1e6).toFixed(2)} Mbit/s` : `${(bps / 1e3).toFixed(0)} kbit/s`; }
function promise(part) {
  if (!part.is_promised_kind) return "none: it takes what is left";
  if (part.promised_bps !== null) return `${rate(part.promised_bps)} promised`;
  return part.why ? `none: ${part.why}` : "not asked for yet";
}
const bodyOf = document.getElementById("parts");
function showState() {
  const isSilent = failure !== null || performance.now() - stateAt > SILENT_MS;
  showAlert();
  if (state === null) return;
  if (bodyOf.children.length === 0) {
    for (const part of state.parts) {
      const row = bodyOf.insertRow();
      row.dataset.part = part.part;
      for (const name of ["", "state", "number", "number", "number", "number", "text"]) row.insertCell().className = name;
    }
  }
  state.parts.forEach((part, index) => {
    const cells = bodyOf.rows[index].cells, [text, kind] = word(part, isSilent);
    put(cells[0], part.name);
    put(cells[1], text);
    cells[1].className = `state ${kind}`;
    put(cells[2], age(part));
    put(cells[3], part.frame === null ? "–" : String(part.frame));
    put(cells[4], part.count === null ? "–" : String(part.count));
    put(cells[5], String(part.skipped));
    put(cells[6], promise(part));
  });
  const frames = state.period_us ? `, ${(1e6 / state.period_us).toFixed(0)} frames a second` : "";
  const words = state.atoms === null ? `${state.name}: ${state.why ?? "waiting"}` : `${state.name}: ${state.atoms} atoms, ${state.bonds} bonds${frames}${state.why === null ? "" : `. Stale: ${state.why}`}`;
  put(document.getElementById("molecule"), words);
  const seen = state.parts[1].view;
  const follows = state.view === 0 ? "All bonds are in view." : seen === state.view ? `Bonds follow view ${state.view}.` : `View ${state.view} is on its way.`;
  put(document.getElementById("view"), state.dropped > 0 ? `${follows} This page did not read ${state.dropped} records in time; they were left out.` : follows);
}
setInterval(showState, 500);

async function received(next) {
  [state, stateAt, failure] = [next, performance.now(), null];
  if (next.session !== session && next.session > 0) {
    session = next.session;
    try { scene?.colour(await elements()); } catch { session = null; }
    isDirty = true;
  }
  showState();
}

function draw() {
  if (scene && isDirty && !document.hidden) { isDirty = false; scene.draw(camera, colours); }
  requestAnimationFrame(draw);
}

try { scene = new Scene(canvas); } catch (error) { notice = `Nothing is drawn: ${error.message}. The streams are shown below.`; }
draw();
try { await enter(); } catch (error) { failure = error.message; }
for (;;) {
  try {
    await follow(receive, received);
    failure = "The viewer no longer answers. Does it still run?";
  } catch (error) {
    failure = error.isRefused ? (failure ?? error.message) : "The viewer no longer answers. Does it still run?";
    if (error.isRefused) break;
  } finally { showState(); }
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
}
showState();
