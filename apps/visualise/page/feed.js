// Frames and states, as the viewer sends them: records with their length before them.

const LITTLE = true;

async function answered(response) {
  if (response.ok) return response;
  let words = `the viewer answers ${response.status}`;
  try { words = (await response.json()).error ?? words; } catch { /* no JSON */ }
  throw Object.assign(new Error(words), { isRefused: response.status === 401 || response.status === 403 });
}

export async function post(path, body) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await answered(await fetch(path, request));
  const text = await response.text();
  return text ? JSON.parse(text) : {};
}

/** Exchanges the token of the link, if the address has one, for a cookie. */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", "/");
  await post("/api/enter", { token });
}

/** Atomic numbers of the atoms, one byte each. */
export async function elements() {
  return new Uint8Array(await (await answered(await fetch("/api/elements"))).arrayBuffer());
}

/** Records of a body that is read piece by piece. */
async function* records(reader) {
  let pieces = [], held = 0;
  const joined = () => {
    if (pieces.length === 1) return pieces[0];
    const all = new Uint8Array(held);
    let at = 0;
    for (const piece of pieces) { all.set(piece, at); at += piece.length; }
    pieces = [all];
    return all;
  };
  let needed = 4;
  for (;;) {
    while (held < needed) {
      const { value, done } = await reader.read();
      if (done) return;
      pieces.push(value);
      held += value.length;
    }
    const all = joined();
    const length = new DataView(all.buffer, all.byteOffset).getUint32(0, LITTLE);
    needed = 4 + length;
    if (held < needed) continue;
    yield all.slice(4, needed);
    pieces = [all.subarray(needed)];
    held -= needed;
    needed = 4;
  }
}

/**
 * Calls `frame({ part, number, view, body })` with the parts of frames, `body` an ArrayBuffer, and `state` with states, until the viewer
 * ends or is lost.
 */
export async function follow(frame, state) {
  const response = await answered(await fetch("/api/frames"));
  const text = new TextDecoder();
  for await (const record of records(response.body.getReader())) {
    if (record[0] === 0) { state(JSON.parse(text.decode(record.subarray(1)))); continue; }
    const head = new DataView(record.buffer, record.byteOffset);
    const number = Number(head.getBigUint64(4, LITTLE));
    frame({ part: record[1], number, view: head.getUint32(12, LITTLE), body: record.buffer.slice(record.byteOffset + 20) });
  }
}
