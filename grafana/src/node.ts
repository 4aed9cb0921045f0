// Nodes: what their consoles export at /metrics (docs/console.md).

import { DashboardCursorSync, type Dashboard } from "@grafana/schema";
import { chart, choice, datasource, placed } from "./panels.js";

const OF = 'instance=~"$instance"';
const PEER = `${OF}, peer=~"$peer"`;
const INTERFACE = `${OF}, interface=~"$interface"`;
const PATH = `${PEER}, interface=~"$interface"`;
const PATH_NAME = "{{instance}} {{interface}} → {{peer}}";

export const node: Dashboard = {
  uid: "anabranch-node",
  title: "Anabranch: nodes",
  description: "Sessions, paths, interfaces, streams and promises, and quotas of nodes.",
  tags: ["anabranch"],
  schemaVersion: 41,
  editable: true,
  graphTooltip: DashboardCursorSync.Crosshair,
  refresh: "10s",
  time: { from: "now-1h", to: "now" },
  templating: {
    list: [
      datasource,
      choice("instance", "Node", "anabranch_build_info"),
      choice("peer", "Peer", `anabranch_sessions{${OF}}`),
      choice("interface", "Interface", `anabranch_interface_up{${OF}}`),
    ],
  },
  panels: placed([
    ["Node", [
      chart("Nodes by version", "Nodes that answer", "short", [[`sum by (version) (anabranch_build_info{${OF}})`, "{{version}}"]]),
      chart("Uptime", "Time since the start", "s", [[`anabranch_uptime_seconds{${OF}}`, "{{instance}}"]]),
      chart("Sessions", "Open sessions by peer", "short", [[`anabranch_sessions{${PEER}}`, "{{instance}} → {{peer}}"]]),
      chart("Memory of sessions", "Data to send, and to be read", "bytes", [[`anabranch_session_held_bytes{${PEER}}`, "{{instance}} → {{peer}} {{direction}}"]]),
    ]],
    ["Paths", [
      chart("Paths by state", "Active ones, and those that do not respond", "short", [[`sum by (state) (anabranch_paths{${PATH}})`, "{{state}}"]]),
      chart("Rate and promises", "Delivered; promised to streams; reached by nine of ten windows", "Bps", [
        [`anabranch_path_rate_bytes_per_second{${PATH}}`, `${PATH_NAME} delivered`],
        [`anabranch_path_promised_bytes_per_second{${PATH}}`, `${PATH_NAME} promised`],
        [`anabranch_path_bandwidth_p10_bytes_per_second{${PATH}}`, `${PATH_NAME} in 9 of 10 windows`],
      ]),
      chart("Round trip", "The longest of the paths of an interface", "s", [[`anabranch_path_round_trip_seconds{${PATH}}`, PATH_NAME]]),
      chart("Loss", "Share of recent packets; the highest of the paths of an interface", "percentunit", [[`anabranch_path_loss_ratio{${PATH}}`, PATH_NAME]]),
      chart("In flight", "Sent and not acknowledged", "bytes", [[`anabranch_path_in_flight_bytes{${PATH}}`, PATH_NAME]]),
    ]],
    ["Interfaces", [
      chart("Usable interfaces", "1 if an interface can be used", "bool_yes_no", [[`anabranch_interface_up{${INTERFACE}}`, "{{instance}} {{interface}}"]]),
      chart("Traffic", "Payload of UDP packets", "Bps", [[`rate(anabranch_interface_bytes_total{${INTERFACE}}[$__rate_interval])`, "{{instance}} {{interface}} {{direction}}"]]),
      chart("Packets", "UDP packets", "pps", [[`rate(anabranch_interface_packets_total{${INTERFACE}}[$__rate_interval])`, "{{instance}} {{interface}} {{direction}}"]]),
      chart("Drops at sockets", "Packets that the kernel refused, and batches for which it had no space", "short", [
        [`rate(anabranch_interface_dropped_total{${INTERFACE}}[$__rate_interval])`, "{{instance}} {{interface}} {{cause}}"],
      ]),
    ]],
    ["Streams and promises", [
      chart("Streams by promise", "Open streams", "short", [[`sum by (promise) (anabranch_streams{${PEER}})`, "{{promise}}"]]),
      chart("Backlog", "Bytes of streams that wait to be sent", "bytes", [[`anabranch_stream_backlog_bytes{${PEER}}`, "{{instance}} → {{peer}}"]]),
      chart("Events of promises", "In five minutes", "short", [[`sum by (event) (increase(anabranch_promise_events_total{${OF}}[5m]))`, "{{event}}"]]),
      chart("Events that were missed", "They came too fast to be counted", "short", [[`increase(anabranch_promise_events_missed_total{${OF}}[5m])`, "{{instance}}"]]),
    ]],
    ["Drops", [
      chart("Messages dropped", "Lost on the way; too late; beyond the share of their stream; not read by their application", "short", [
        [`sum by (peer, cause) (rate(anabranch_messages_dropped_total{${PEER}}[$__rate_interval]))`, "{{peer}} {{cause}}"],
      ]),
      chart("Requests refused", "Channels of peers, rights and circuits, by cause", "short", [
        [`sum by (of, cause) (rate(anabranch_refused_total{${OF}}[$__rate_interval]))`, "{{of}} {{cause}}"],
      ]),
      chart("Packets dropped", "By the relay and the tunnel, by cause", "short", [
        [`sum by (of, cause) (rate(anabranch_packets_dropped_total{${OF}}[$__rate_interval]))`, "{{of}} {{cause}}"],
      ]),
      chart("Flows denied", "By rules for flows", "short", [[`rate(anabranch_flows_denied_total{${OF}}[$__rate_interval])`, "{{instance}} {{rule}}"]]),
    ]],
    ["Quotas", [
      chart("Used", "In the billing period", "bytes", [[`anabranch_quota_used_bytes{${OF}}`, "{{instance}} {{place}}"]]),
      chart("Left", "Before sending stops", "bytes", [[`anabranch_quota_left_bytes{${OF}}`, "{{instance}} {{place}}"]]),
      chart("Used up", "1 if nothing may be sent any more", "bool_yes_no", [[`anabranch_quota_spent{${OF}}`, "{{instance}} {{place}}"]]),
    ]],
  ]),
};
