// Paths with their rates, objectives with their utility, and files.

/** Time over which rates are counted, in us. */
const RATE_US = 2_000_000;

export function put(element, text) { if (element.textContent !== text) element.textContent = text; }

function rate(bps) { return bps >= 1e6 ? `${(bps / 1e6).toFixed(2)} Mbit/s` : `${(bps / 1e3).toFixed(0)} kbit/s`; }
function size(bytes) { return bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e3).toFixed(0)} kB`; }

const before = new Map();

/** Bytes a second of a path over the last two seconds. */
function rateOf(path, now) {
  const seen = before.get(path.channel) ?? [];
  if (seen.length > 0 && path.received_bytes < seen.at(-1).bytes) seen.length = 0;
  seen.push({ at: now, bytes: path.received_bytes });
  while (seen.length > 2 && seen[1].at <= now - RATE_US) seen.shift();
  before.set(path.channel, seen);
  const span = now - seen[0].at;
  return span > 0 ? (path.received_bytes - seen[0].bytes) * 8e6 / span : 0;
}

/** As many rows as there are texts; `classes` are those of the cells of a row. */
function fill(body, rows, classes) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((texts, index) => {
    if (!body.rows[index]) for (const name of classes) (body.rows[index] ?? body.insertRow()).insertCell().className = name;
    texts.forEach((text, cell) => put(body.rows[index].cells[cell], text));
  });
}

export function showPaths(body, state) {
  const names = new Set(state.paths.map((path) => path.channel));
  for (const name of before.keys()) if (!names.has(name)) before.delete(name);
  const rows = state.paths.map((path) => [path.remote, path.is_active ? "active" : "not responding", `${(path.rtt_us / 1000).toFixed(0)} ms`, rate(rateOf(path, state.now_us)), size(path.received_bytes)]);
  fill(body, rows, ["", "", "number", "number", "number"]);
  state.paths.forEach((path, index) => { body.rows[index].cells[1].className = `state ${path.is_active ? "good" : "bad"}`; });
}

/** What the objectives of the ambulance did within the last minute. */
export function showObjectives(body, note, objectives) {
  const tallies = objectives?.tallies ?? [], number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
  const rows = tallies.map((one) => [one.name ?? `objective ${one.objective}`, ...[one.contexts, one.contexts_met, one.contexts_faulty, one.utility].map(number)]);
  fill(body, rows, ["", "number", "number", "number", "number"]);
  body.parentElement.hidden = rows.length === 0;
  put(note, !objectives ? "The ambulance does not state them." : rows.length === 0 ? "None is in force: it sends by its policy alone." : "What it sent within the last minute.");
}

/** Files, the newest first; those that are no pictures by name only. */
export function showStills(place, note, state, ageOf) {
  put(note, state.stills_kept === 0 ? "none yet" : `${state.stills_kept} kept${state.stills_kept > state.stills.length ? `, the last ${state.stills.length} are shown` : ""}`);
  const wanted = new Set(state.stills.map((still) => `${state.case}-${still.number}`));
  for (const figure of [...place.children]) if (!wanted.has(figure.dataset.still)) figure.remove();
  for (const still of state.stills) {
    const id = `${state.case}-${still.number}`;
    let figure = [...place.children].find((one) => one.dataset.still === id);
    if (!figure) {
      figure = document.createElement("figure");
      figure.dataset.still = id;
      const link = document.createElement("a"), image = document.createElement("img"), caption = document.createElement("figcaption");
      link.href = image.src = `/api/stills/${still.number}`;
      link.target = "_blank";
      link.rel = "noopener";
      image.alt = still.name;
      image.addEventListener("error", () => link.replaceWith("no picture"));
      link.append(image);
      figure.append(link, caption);
      place.prepend(figure);
    }
    put(figure.lastElementChild, `${still.name}, ${size(still.bytes)}, here for ${ageOf(still)}`);
  }
}
