// The page: leads, heart rate, video, speech, files, paths and objectives of the newest case, each with its age.

import { LOST_MS, label, words } from "./ages.js";
import { Clock } from "./clock.js";
import { enter, follow, post } from "./feed.js";
import { Leads } from "./leads.js";
import { Speech } from "./speech.js";
import { put, showObjectives, showPaths, showStills } from "./tables.js";
import { Talk } from "./talk.js";
import { Video } from "./video.js";
import { Limits } from "./vitals.js";

const root = document.documentElement, at = (name) => document.getElementById(name);
/** Time between two pictures of the page, two questions about the clock, and two attempts to reach the hospital, in ms. */
const DRAW_MS = 80, CLOCK_MS = 1000, AGAIN_MS = 1000;
/** Asks for a key picture; an answer that does not come is asked for again later. */
function wantKey(wish) { post("/api/key", wish).catch(() => {}); }

const ORIGINS = { real: "real", replayed: "replayed", generated: "generated", unstated: "origin not stated" };

const clock = new Clock(), leads = new Leads(at("leads")), video = new Video(at("picture"), at("player"), wantKey);
let state = null, stateAt = -Infinity, failure = null, colours = null;
const limits = new Limits(() => show());
const speech = new Speech(), talk = new Talk();

function theme(name) {
  root.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* a private window */ }
  const style = getComputedStyle(root);
  colours = Object.fromEntries(["paper", "fine", "coarse", "trace", "gap"].map((one) => [one, style.getPropertyValue(`--${one}`).trim()]));
  leads.repaint();
}
let kept = null;
try { kept = localStorage.getItem("theme"); } catch { /* a private window */ }
theme(kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
at("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));

at("listen").addEventListener("click", () => speech.toggle());
at("talk").addEventListener("click", () => talk.toggle(state?.case ?? 0, at("name").value));
try { at("name").value = localStorage.getItem("name") ?? ""; } catch { /* a private window */ }
at("name").addEventListener("change", () => { try { localStorage.setItem("name", at("name").value); } catch { /* a private window */ } });

function ageOf(dated) { return dated ? clock.age(dated) : null; }

/** The age of a part beside its name; returns it in ms, or null. */
function mark(name, dated, isOver) {
  const age = ageOf(dated), place = at(`${name}-age`);
  const { text, mark, isStale } = label(name, age, performance.now() - stateAt, isOver);
  put(place, text);
  place.className = `state ${mark}`;
  place.closest("section").classList.toggle("is-stale", isStale);
  return age?.age ?? null;
}

function keptWords(seconds) {
  if (seconds === 0) return "removed when it has ended";
  const [unit, name] = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([unit]) => seconds % unit === 0);
  return `kept for ${seconds / unit} ${name}${seconds === unit ? "" : "s"} after its end`;
}

function caseWords() {
  if (state === null) return "Connecting …";
  if (state.case === 0) return "No ambulance has been here yet.";
  const lasts = words((state.now_us - state.since_us) / 1000), seen = state.viewers === 1 ? "" : `, ${state.viewers} viewers`;
  return `Case ${state.case} of ambulance ${state.node.slice(0, 12)}…, for ${lasts}: ${state.is_open ? "connected" : `not connected (${state.why ?? "no session"})`}, ${keptWords(state.kept_s)}${seen}`;
}

function ekgWords() {
  const { ekg, dropped } = state;
  if (!ekg) return "No record is sent.";
  const unread = dropped.samples > 0 ? ` This page did not read ${dropped.samples} pieces in time; they are shaded here, and in the record.` : "";
  return `${ekg.leads.length} leads, ${ekg.frequency} Hz; ${ekg.next} frames, ${ekg.missing} of them are missing.${unread} ${leads.leftOut ?? ""}`;
}

function videoWords() {
  const { received, missing, in_time: inTime, not_shown: large, keys_requested: keys } = state.video, unread = state.dropped.pictures;
  const counts = received > 0 ? `${received} pictures came, ${inTime} of them within 800 ms, ${missing} did not. ` : "";
  return `${counts}${video.words}${keys > 0 ? ` Key pictures that were asked for: ${keys}.` : ""}${large > 0 ? ` ${large} were too large to be shown.` : ""}${unread > 0 ? ` This page did not read ${unread} in time.` : ""}`;
}

function speechWords() {
  const { received, missing, in_time: inTime } = state.speech, unread = state.dropped.speech;
  if (received === 0) return "No speech has come.";
  return `${received} packets of 20 ms came, ${inTime} of them within 400 ms, ${missing} did not. ${speech.words}${unread > 0 ? ` This page did not read ${unread} in time.` : ""}`;
}

function showTalk() {
  const { is_heard: isHeard, speaker } = state.speech, button = at("talk"), isOther = speaker !== null && !talk.isOn;
  button.disabled = !talk.isOn && (!isHeard || isOther);
  button.setAttribute("aria-pressed", talk.isOn);
  put(button, talk.isOn ? "Stop" : "Speak");
  at("listen").setAttribute("aria-pressed", speech.isOn);
  put(at("listen"), speech.isOn ? "Mute" : "Listen");
  at("level").value = speech.level;
  const who = isOther ? `${speaker.name} speaks.` : "";
  put(at("talk-note"), talk.words || who || (isHeard ? "The ambulance listens." : "The ambulance does not listen."));
}

function origin(name, text) { put(at(`${name}-origin`), text); }

function show() {
  const isLost = performance.now() - stateAt > LOST_MS;
  at("failure").hidden = failure === null;
  put(at("failure"), failure ?? "");
  put(at("case"), caseWords());
  const isOver = state?.ekg?.has_ended === true;
  const ages = { ekg: mark("ekg", state?.ekg?.dated, isOver), vital: mark("vital", state?.vital?.dated, isOver) };
  mark("video", video.dated, false);
  mark("speech", speech.dated, false);
  if (state?.objectives?.tallies.length > 0) mark("objectives", state.objectives.dated, false);
  else put(at("objectives-age"), "");
  const rate = state?.vital?.heart_rate;
  put(at("heart-rate"), typeof rate === "number" ? rate.toFixed(0) : "–");
  if (state !== null && state.case > 0) {
    put(at("ekg-note"), ekgWords());
    put(at("video-note"), videoWords());
    put(at("speech-note"), speechWords());
    showTalk();
    origin("speech", state.speech.received > 0 ? ORIGINS[state.contents.speech] : "");
    origin("ekg", state.ekg ? ORIGINS[state.contents.ekg] : "");
    origin("vital", state.vitals_origin ?? "");
    origin("video", state.video.received > 0 ? ORIGINS[state.contents.video] : "");
    const failed = state.failed ? [`${state.failed.stream}: ${state.failed.why}`] : [];
    const alarms = [...limits.alarms(state, ages, isLost), ...failed], list = at("alarms");
    list.hidden = alarms.length === 0;
    while (list.children.length > alarms.length) list.lastElementChild.remove();
    alarms.forEach((text, index) => put(list.children[index] ?? list.appendChild(document.createElement("li")), text));
  }
  leads.draw(colours);
}
setInterval(show, DRAW_MS);

function received(next) {
  [state, stateAt, failure] = [next, performance.now(), null];
  if (state.ekg) leads.set(state.case, state.ekg);
  showPaths(at("paths"), state);
  showObjectives(at("objectives"), at("objectives-note"), state.objectives);
  showStills(at("stills"), at("stills-note"), state, (still) => words((state.now_us - still.at_us) / 1000));
}

/** Samples move the record's date on between two states, unless they come late. */
function samples(data) {
  if (state?.case !== data.case || !state.ekg) return;
  if (leads.take(data)) state.ekg.dated = data.dated;
}

async function clocks() {
  for (;;) {
    try { await clock.ask(); } catch { /* the feed has the words for it */ }
    await new Promise((resolve) => setTimeout(resolve, CLOCK_MS));
  }
}

try { await enter(); } catch (error) { failure = error.message; }
clocks();
for (;;) {
  try {
    await follow({ state: received, samples, picture: (picture) => video.take(picture), speech: (packet) => speech.take(packet) });
    failure = "The hospital no longer answers. Does it still run?";
  } catch (error) {
    failure = error.isRefused ? (failure ?? error.message) : "The hospital no longer answers. Does it still run?";
    if (error.isRefused) break;
  }
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
}
