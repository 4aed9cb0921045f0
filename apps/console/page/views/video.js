// Stored video: plays, target rates, frames by type, the cache of a proxy, the proxies of an origin.

import { h, keyed, put, table } from "../dom.js";
import { rateChart } from "../chart.js";
import { bytes, count, percent, rate, time } from "../format.js";
import { SPAN } from "../history.js";

export const title = "Video";

const TYPES = { I: "intra (key frames)", P: "predicted", B: "bidirectional", A: "audio", "?": "other" };
const LINES = [
  ["rate", "in time", "--text", { width: 2 }],
  ["target", "target", "--second", { width: 2, dash: [8, 3] }],
];
const MOST = SPAN * 4 + 8;

/** A list of terms; `update(values)` sets them by name, without those that are undefined. */
function terms() {
  const element = h("dl");
  return { element, update(values) {
    keyed(element, Object.entries(values).filter(([, value]) => value !== undefined), ([name]) => name,
      ([name]) => h("div", {}, h("dt", {}, name), h("dd")), (item, [, value]) => put(item.lastChild, value));
  } };
}

/** What the other sides need of the pipe and get, from a state. */
function peers(video) {
  if (video.kind === "origin") {
    return video.proxies.map((proxy) => ({
      key: String(proxy.session), name: `Proxy with ticket ${proxy.ticket}`, target: proxy.target_bps, rate: proxy.essential_rate_bps + proxy.enhanced_rate_bps,
      values: {
        Plays: count(proxy.running), Target: rate(proxy.target_bps), "Pipe held to": rate(proxy.held_bps),
        "Essential, sent": rate(proxy.essential_rate_bps), "Enhanced, arrived": rate(proxy.enhanced_rate_bps),
        "Enhanced that is sent": percent(proxy.sent_fraction), "Lost on the way": percent(proxy.lost_fraction),
        "No capacity": percent(proxy.dropped_fraction), "Waits to be sent": bytes(proxy.backlog_bytes),
      },
    }));
  }
  const { plays, counters, origin } = video;
  return [{
    key: "origin", name: "Plays from the origin", target: plays.target_bps, rate: plays.rate_bps,
    values: {
      Running: count(plays.running), Target: rate(plays.target_bps), "In time": rate(plays.rate_bps), "Highest loss": percent(plays.loss_fraction),
      Begun: count(counters.plays), Refused: count(counters.refused), Sessions: count(origin.sessions),
      "Round trip": origin.channels.length ? time(Math.min(...origin.channels.map((channel) => channel.rtt_ms))) : "–",
    },
  }];
}

function peerCard(peer) {
  const chart = rateChart(`Rate and target of ${peer.name}, over the last two minutes`, LINES);
  const list = terms();
  const series = { at: [], rate: [], target: [] };
  const element = h("article", { class: "card" }, h("h2", {}, peer.name), chart.element, list.element);
  return { element, drop: chart.drop, update(now, at) {
    series.at.push(at); series.rate.push(now.rate); series.target.push(now.target);
    if (series.at.length > MOST) for (const column of Object.values(series)) column.shift();
    list.update(now.values);
    chart.update(series, at);
  } };
}

function cache(video) {
  const { cache, counters } = video;
  const asked = counters.at_once + counters.waits;
  return {
    Size: `${bytes(cache.bytes)} of ${bytes(cache.limit_bytes)}`, Videos: count(cache.videos), Beginnings: bytes(cache.prefix_bytes),
    "Answered at once": asked ? `${count(counters.at_once)} of ${count(asked)} chunks` : "–", Evicted: count(cache.evicted), Damaged: count(cache.damaged),
  };
}

function players({ counters }) {
  return {
    Stalls: count(counters.stalls), "Time stalled": time(counters.stalled_ms), "Waits for the origin": count(counters.waits),
    "Mean wait": counters.waits ? time(counters.waited_ms / counters.waits) : "–", Responses: count(counters.responses), Data: bytes(counters.response_bytes),
  };
}

function drops({ kind, counters }) {
  return kind === "origin"
    ? { "Frames without capacity": count(counters.thinned_frames), "Packets lost": count(counters.lost_adus), "Packets without capacity": count(counters.dropped_adus) }
    : { "Without capacity": count(counters.thinned_frames), "Lost on the way": count(counters.lost_on_the_way_frames), Repaired: count(counters.repaired_frames), "Not shown to players": count(counters.left_out_frames) };
}

export function mount(root) {
  const state = h("p", { class: "state" });
  const cards = h("div", { class: "cards" });
  const stalls = terms(), cached = terms(), dropped = terms();
  const disk = h("p", { class: "state" });
  const frames = table("Frames by type", [
    { title: "Type", text: (row) => TYPES[row.type] ?? row.type },
    ...[["Sent", "sent"], ["Lost", "lost"], ["Too late", "late"], ["Left out for players", "left_out"]].map(([name, field]) => ({ title: name, kind: "number", text: (row) => count(row[field]) })),
  ], "No frames yet.");
  const videos = table("Videos", [
    { title: "Video", text: (row) => row.name, kind: "text" }, { title: "Plays", text: (row) => count(row.flows), kind: "number" },
  ], "No video is open.");
  const plays = table("Plays", [
    { title: "Ticket", text: (row) => row.ticket }, { title: "Video", text: (row) => row.video, kind: "text" },
    { title: "Essential", text: (row) => rate(row.essential_bps), kind: "number" }, { title: "Enhanced", text: (row) => rate(row.enhanced_bps), kind: "number" },
    { title: "Sent of it", text: (row) => percent(row.kept_fraction), kind: "number" }, { title: "Pace", text: (row) => `${row.pace.toFixed(2)} ×`, kind: "number" },
    { title: "Ahead", text: (row) => time(row.ahead_s * 1000), kind: "number" },
  ], "Nothing plays.");
  const card = (name, ...parts) => h("section", { class: "card" }, h("h2", {}, name), ...parts);
  const atProxy = h("div", { class: "cards" }, card("Players", stalls.element), card("Cache", disk, cached.element));
  const lists = { proxy: h("div", { class: "card" }, videos.element), origin: h("div", { class: "card" }, plays.element) };
  root.append(state, cards, atProxy, h("div", { class: "card" }, frames.element, dropped.element), lists.proxy, lists.origin);
  const shown = (now) => {
    const { video, at } = now;
    const isOrigin = video.kind === "origin";
    atProxy.hidden = isOrigin; lists.proxy.hidden = isOrigin; lists.origin.hidden = !isOrigin;
    state.className = `state ${video.trouble ? "bad" : "good"}`;
    put(state, video.trouble ?? (isOrigin ? `serving, ${video.proxies.length} ${video.proxies.length === 1 ? "proxy" : "proxies"} connected` : "connected to the origin"));
    keyed(cards, peers(video), (peer) => peer.key, peerCard, (own, peer) => own.update(peer, at));
    dropped.update(drops(video));
    frames.update(Object.entries(video.counters.frames).map(([type, counts]) => ({ type, ...counts })), (row) => row.type);
    if (isOrigin) {
      plays.update(video.proxies.flatMap((proxy) => proxy.plays.map((play, index) => ({ ...play, ticket: proxy.ticket, key: `${proxy.session} ${index}` }))), (row) => row.key);
      return;
    }
    stalls.update(players(video));
    cached.update(cache(video));
    disk.className = `state ${video.cache.is_disk_usable ? "good" : "warn"}`;
    put(disk, video.cache.is_disk_usable ? "the disk accepts data" : "the disk is full: videos play without being cached");
    videos.update(video.videos, (row) => row.name);
  };
  return { update: shown, drop() { keyed(cards, [], (peer) => peer.key, peerCard, () => {}); } };
}
