// States, samples, pictures and speech, as the hospital sends them: records with their length before them (hospital/page/record.rs).

const LITTLE = true, HEAD_BYTES = 32, UNKNOWN = 0xffffffff;

export async function answered(response) {
  if (response.ok) return response;
  let words = `the hospital answers ${response.status}`;
  try { words = (await response.json()).error ?? words; } catch { /* no JSON */ }
  throw Object.assign(new Error(words), { isRefused: response.status === 401 || response.status === 403 });
}

/** Sends a message in JSON. */
export async function post(path, message) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(message) }));
}

/** Exchanges the token of the link, if the address has one, for a cookie. */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", "/");
  await post("/api/enter", { token });
}

/** Bytes of a body, so many at a time; null at its end. */
class Source {
  #reader;
  #pieces = [];
  #held = 0;

  constructor(reader) { this.#reader = reader; }

  async take(bytes) {
    while (this.#held < bytes) {
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#pieces.push(value);
      this.#held += value.length;
    }
    const taken = new Uint8Array(bytes);
    for (let at = 0; at < bytes;) {
      const piece = this.#pieces[0], part = piece.subarray(0, bytes - at);
      taken.set(part, at);
      at += part.length;
      if (part.length === piece.length) this.#pieces.shift();
      else this.#pieces[0] = piece.subarray(part.length);
    }
    this.#held -= bytes;
    return taken;
  }
}

function dataOf(record) {
  const head = new DataView(record.buffer), error = head.getUint32(24, LITTLE);
  return {
    isKey: (record[1] & 1) === 1,
    case: head.getUint32(4, LITTLE),
    number: Number(head.getBigUint64(8, LITTLE)),
    dated: { at_us: Number(head.getBigUint64(16, LITTLE)), error_us: error === UNKNOWN ? null : error },
    leads: head.getUint32(28, LITTLE),
    body: record.subarray(HEAD_BYTES),
  };
}

/** Calls `state`, `samples`, `picture` and `speech` with what comes, until the hospital ends or is lost. */
export async function follow({ state, samples, picture, speech }) {
  const response = await answered(await fetch("/api/feed"));
  const source = new Source(response.body.getReader()), text = new TextDecoder();
  for (;;) {
    const length = await source.take(4);
    const record = length && await source.take(new DataView(length.buffer).getUint32(0, LITTLE));
    if (!record) return;
    if (record[0] === 0) state(JSON.parse(text.decode(record.subarray(1))));
    else if (record[0] === 1) samples(dataOf(record));
    else if (record[0] === 2) picture(dataOf(record));
    else if (record[0] === 3) speech(dataOf(record));
  }
}
