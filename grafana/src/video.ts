// Stored video: what the consoles of origins and proxies export at /metrics (docs/console.md).

import { DashboardCursorSync, type Dashboard } from "@grafana/schema";
import { chart, choice, datasource, placed } from "./panels.js";

const OF = 'instance=~"$instance"';
const PEER = `${OF}, peer=~"$peer"`;
const PEER_NAME = "{{instance}} {{peer}}";
const per = (metric: string, filter = OF): string => `rate(anabranch_video_${metric}{${filter}}[$__rate_interval])`;

export const video: Dashboard = {
  uid: "anabranch-video",
  title: "Anabranch: stored video",
  description: "Plays, target rates, frames, stalls and caches of origins and proxies.",
  tags: ["anabranch"],
  schemaVersion: 41,
  editable: true,
  graphTooltip: DashboardCursorSync.Crosshair,
  refresh: "10s",
  time: { from: "now-1h", to: "now" },
  templating: {
    list: [
      datasource,
      choice("instance", "Program", "anabranch_video_build_info"),
      choice("peer", "Other side", `anabranch_video_plays{${OF}}`),
    ],
  },
  panels: placed([
    ["Plays", [
      chart("Programs by role", "Origins and proxies that answer", "short", [[`sum by (role, version) (anabranch_video_build_info{${OF}})`, "{{role}} {{version}}"]]),
      chart("Plays", "Over the pipe, by the other side", "short", [[`anabranch_video_plays{${PEER}}`, PEER_NAME]]),
      chart("Plays begun and refused", "Each second", "short", [
        [per("plays_begun_total"), "{{instance}} begun"],
        [per("plays_refused_total"), "{{instance}} {{cause}}"],
      ]),
      chart("Target and rate", "What the plays need, and what came in time or left and arrived", "Bps", [
        [`anabranch_video_target_bytes_per_second{${PEER}}`, `${PEER_NAME} target`],
        [`anabranch_video_rate_bytes_per_second{${PEER}}`, `${PEER_NAME} rate`],
        [`anabranch_video_held_bytes_per_second{${PEER}}`, `${PEER_NAME} held to`],
      ]),
      chart("Data by flow", "Received by proxies, sent by origins", "Bps", [
        [per("received_bytes_total"), "{{instance}} {{flow}} received"],
        [per("sent_bytes_total"), "{{instance}} {{flow}} sent"],
      ]),
      chart("Sessions", "With the origin (1 or 0), and by ticket", "short", [
        [`anabranch_video_origin_connected{${OF}}`, "{{instance}} origin"],
        [`anabranch_video_sessions{${PEER}}`, PEER_NAME],
      ]),
      chart("Sessions opened", "In five minutes; many are a path that breaks", "short", [[`increase(anabranch_video_sessions_opened_total{${OF}}[5m])`, "{{instance}}"]]),
      chart("Uptime", "Time since the start", "s", [[`anabranch_video_uptime_seconds{${OF}}`, "{{instance}}"]]),
    ]],
    ["Players", [
      chart("Stalls", "In five minutes, as far as the proxy can tell", "short", [[`increase(anabranch_video_stalls_total{${OF}}[5m])`, "{{instance}}"]]),
      chart("Time stalled", "In five minutes", "s", [[`increase(anabranch_video_stalled_seconds_total{${OF}}[5m])`, "{{instance}}"]]),
      chart("Mean wait", "Of requests for chunks that waited for the origin", "s", [
        [`rate(anabranch_video_waited_seconds_total{${OF}}[5m]) / ignoring(from) rate(anabranch_video_chunks_total{${OF}, from="origin"}[5m])`, "{{instance}}"],
      ]),
      chart("Responses", "Each second", "short", [[per("responses_total"), "{{instance}}"]]),
      chart("Video data in responses", "To players", "Bps", [[per("response_bytes_total"), "{{instance}}"]]),
    ]],
    ["Frames", [
      chart("Frames sent", "Each second, by type", "short", [[`sum by (instance, type) (${per("frames_total")})`, "{{instance}} {{type}}"]]),
      chart("Frames lost, late, left out", "Each second, by type", "short", [
        [`sum by (type) (${per("frames_lost_total")})`, "{{type}} lost"],
        [`sum by (type) (${per("frames_late_total")})`, "{{type}} too late"],
        [`sum by (type) (${per("frames_left_out_total")})`, "{{type}} left out"],
      ]),
      chart("Frames dropped", "Each second, by cause, and those repaired", "short", [
        [`sum by (instance, cause) (${per("frames_dropped_total")})`, "{{instance}} {{cause}}"],
        [per("frames_repaired_total"), "{{instance}} repaired"],
      ]),
      chart("Messages of origins dropped", "Each second, by cause", "short", [[per("messages_dropped_total"), "{{instance}} {{cause}}"]]),
    ]],
    ["Cache", [
      chart("Size", "Data, beginnings of videos, and the limit", "bytes", [
        [`anabranch_video_cache_bytes{${OF}}`, "{{instance}} data"],
        [`anabranch_video_cache_prefix_bytes{${OF}}`, "{{instance}} beginnings"],
        [`anabranch_video_cache_limit_bytes{${OF}}`, "{{instance}} limit"],
      ]),
      chart("Chunks for players", "Each second: at once from the cache, or when the origin had sent them", "short", [[per("chunks_total"), "{{instance}} {{from}}"]]),
      chart("Dropped from the cache", "Parts each second, by cause", "short", [[per("cache_dropped_total"), "{{instance}} {{cause}}"]]),
      chart("Videos", "In the cache", "short", [[`anabranch_video_cache_videos{${OF}}`, "{{instance}}"]]),
      chart("Usable disk", "1 if the disk accepts data", "bool_yes_no", [[`anabranch_video_cache_usable{${OF}}`, "{{instance}}"]]),
    ]],
  ]),
};
