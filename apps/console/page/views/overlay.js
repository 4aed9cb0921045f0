// The overlay: a map of its members, their links and the paths in use.

import { h, s, table } from "../dom.js";
import { ask } from "../node.js";
import { repeat } from "../timer.js";
import { percent, rate, time } from "../format.js";

export const title = "Overlay";
const PERIOD_MS = 2000;

const LINKS = [
  { title: "From", text: (link) => link.from }, { title: "To", text: (link) => link.to },
  { title: "Bandwidth", text: (link) => rate(link.bandwidth_bps), kind: "number" },
  { title: "Delay", text: (link) => time(link.delay_min_ms ?? link.delay_ms), kind: "number" },
  { title: "Loss", text: (link) => percent(link.loss_fraction), kind: "number" },
];

export function mount(root, context) {
  const note = h("p", { class: "empty" });
  const map = h("div", { class: "card" });
  const links = table("Links", LINKS, "No link was measured yet.");
  const list = h("div", { class: "card" }, links.element);
  root.append(note, map, list);
  const drop = repeat(PERIOD_MS, async () => {
    try {
      const rows = await ask({ show: "overlay" });
      note.hidden = true; map.hidden = list.hidden = false;
      map.replaceChildren(draw(rows));
      links.update(rows.filter((row) => row.kind === "link"), (row) => `${row.from} ${row.to} ${row.remote ?? ""}`);
    } catch (error) {
      note.hidden = false; map.hidden = list.hidden = true;
      note.textContent = error.message;
    }
  });
  return { update() {}, drop };
}

function draw(rows) {
  const members = rows.filter((row) => row.kind === "member");
  const used = new Set();
  for (const path of rows.filter((row) => row.kind === "path")) {
    const hops = [path.from, ...(path.via && path.via !== "direct" ? path.via.split(" > ") : []), path.to];
    hops.slice(1).forEach((hop, index) => used.add(`${hops[index]} ${hop}`));
  }
  const place = new Map(members.map((member, index) => {
    const angle = 2 * Math.PI * index / members.length - Math.PI / 2;
    return [member.name, [320 + 220 * Math.cos(angle), 190 + 140 * Math.sin(angle)]];
  }));
  const lines = rows.filter((row) => row.kind === "link" && place.has(row.from) && place.has(row.to)).map((link) => {
    const [[x1, y1], [x2, y2]] = [place.get(link.from), place.get(link.to)];
    const is = used.has(`${link.from} ${link.to}`) || used.has(`${link.to} ${link.from}`);
    return s("line", { x1, y1, x2, y2, class: is ? "used" : "" }, s("title", {}, `${link.from} → ${link.to}: ${rate(link.bandwidth_bps)}${is ? ", in use" : ""}`));
  });
  const dots = members.map((member) => {
    const [x, y] = place.get(member.name);
    return s("g", {}, s("circle", { cx: x, cy: y, r: 9 }),
      s("text", { x, y: y - 16, "text-anchor": "middle" }, member.name),
      s("text", { x, y: y + 27, "text-anchor": "middle" }, member.state ?? ""));
  });
  return s("svg", { class: "map", viewBox: "0 0 640 380", role: "img", "aria-label": `Map of ${members.length} members; thick lines are in use` }, lines, dots);
}
