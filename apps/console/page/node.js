// The node, or the program with stored video, as its console passes it on.

const isVideo = document.documentElement.dataset.shows === "video";
const LOST = `The console no longer answers. Is the ${isVideo ? "program" : "node"} still running?`;
const OUTSIDE = `This page is not signed in. ${isVideo ? "Press Enter where the program runs" : "Run `anabranch console`"} for a new link.`;

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  const text = await response.text();
  const answer = text ? JSON.parse(text) : {};
  if (!response.ok || answer.error) throw new Error(answer.error ?? `the console answers ${response.status}`);
  return answer;
}

/** Exchanges the token of the link, if the address has one, and puts the first view in its place. */
export async function enter(first) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", `/#${first}`);
  await post("/api/enter", { token });
}

/** Rows of an answer. */
export async function ask(request) {
  return (await post("/api/ask", request)).rows;
}

/**
 * Calls `state` with each state of the node or of the program with stored video, `at` the node's own time in seconds, which no clock that is set
 * changes, and `fault` with a text, or null when all is well again.
 */
export function follow(state, fault) {
  const source = new EventSource("/api/events");
  let received = 0;
  source.onmessage = (event) => {
    received += 1;
    const all = JSON.parse(event.data);
    if (all.error) { fault(all.error); return; }
    fault(null);
    if (all.video) { state({ at: Date.now() / 1000, version: all.video.version, video: all.video }); return; }
    const node = all.status.rows.find((row) => row.kind === "node");
    state({
      at: (node.uptime_ms ?? node.uptime_s * 1000) / 1000,
      version: all.status.version,
      status: all.status.rows,
      paths: all.paths.rows,
      streams: all.streams.rows.filter((row) => row !== null),
      streamsLeftOut: all.streams.rows.filter((row) => row === null).length + all.streams.rows_left_out,
    });
  };
  // A browser tries again by itself, except where it was refused.
  source.onerror = () => fault(source.readyState === EventSource.CLOSED && received === 0 ? OUTSIDE : LOST);
  return source;
}
