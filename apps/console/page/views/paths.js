// Paths: rate with forecast, round trip, loss, price, shared bottlenecks.

import { confirmed, h, keyed, put } from "../dom.js";
import { ask } from "../node.js";
import { rateChart } from "../chart.js";
import { age, bytes, percent, rate, time } from "../format.js";
import { keyOf } from "../history.js";

export const title = "Paths";

const FACTS = [
  ["Delivered", (path) => rate(path.rate_delivered_bps)],
  ["Promised to streams", (path) => rate(path.streams_promised_bps)],
  ["In 9 of 10 windows", (path) => rate(path.bandwidth_p10_bps)],
  ["Round trip", (path) => time(path.rtt_ms)],
  ["Queue and variation", (path) => time(path.rtt_ms === null || path.rtt_min_ms === null ? null : Math.max(0, path.rtt_ms - path.rtt_min_ms))],
  ["Loss", (path) => percent(path.loss_recent_fraction ?? path.loss_fraction)],
  ["Share of the session so far", (path) => percent(path.share_fraction)],
  ["In flight", (path) => bytes(path.in_flight_bytes)],
];

export function mount(root, context) {
  const none = h("p", { class: "empty" }, "No session is open, so there are no paths.");
  const cards = h("div", { class: "cards" });
  root.append(none, cards);
  return {
    update(state, history) {
      none.hidden = state.paths.length > 0;
      const budgets = state.status.filter((row) => row.kind === "budget");
      keyed(cards, state.paths, keyOf, (path) => card(path, context), (child, path) => child.update(path, history.of(path), state.at, budgetOf(path, budgets)));
    },
    drop() { for (const child of cards.keyedChildren?.values() ?? []) child.drop(); },
  };
}

function budgetOf(path, budgets) {
  return budgets.find((budget) => budget.place === path.interface || `${budget.locals}`.split(",").includes(path.local));
}

function state(path) {
  if (path.state === "active") return ["good", "active"];
  if (path.state === "out") return ["warn", path.out_for_ms === null ? "out of use" : `out of use for ${age(path.out_for_ms / 1000)}`];
  const since = path.silent_s === null ? "" : `, ${age(path.silent_s)}`;
  return [path.state === "not responding" ? "bad" : "warn", `${path.state}${since}`];
}

function price(budget) {
  if (!budget) return "free";
  const left = budget.left_bytes ?? budget.quota_left_bytes;
  if (budget.is_spent) return `used up until ${budget.renews}`;
  return left === null ? budget.price : `${bytes(left)} left until ${budget.renews}`;
}

/** Takes a path out of use or in, after a question; what is refused is shown. */
async function toggle(path, name, context) {
  const { session, channel } = path;
  try {
    if (path.is_out) {
      if (await confirmed(`Use ${channel}, ${name}, again?`)) await ask({ show: "path_in", session, channel });
    } else if (await confirmed(`Take ${channel}, ${name}, out of use?`, "It is kept alive and carries no data of streams. Promises are placed on the other paths, or their owners are warned.")) {
      await ask({ show: "path_out", session, channel });
    }
  } catch (error) { context.alert(error.message); }
}

function card(path, context) {
  const name = `${path.interface ?? "any interface"} → ${path.peer_name}`;
  const status = h("span", { class: "state" });
  const facts = [...FACTS.map(([label]) => label), "Price"].map((label) => [h("dt", {}, label), h("dd")]);
  const shared = h("p", { class: "soft" });
  const chart = rateChart(`Rate of ${name} over the last two minutes`);
  let newest = path;
  const act = h("button", { type: "button", click: () => toggle(newest, name, context) });
  const element = h("article", { class: "card" },
    h("header", {}, h("h2", {}, name), status),
    h("p", { class: "soft" }, `${path.channel} to ${path.remote}`),
    chart.element,
    h("dl", {}, facts.map(([term, value]) => h("div", {}, term, value))), shared, h("div", { class: "row" }, act));
  return {
    element,
    drop: () => chart.drop(),
    update(path, series, at, budget) {
      newest = path;
      put(act, path.is_out ? "Use it again" : "Take it out of use");
      const [kind, words] = state(path);
      status.className = `state ${kind}`;
      put(status, words);
      FACTS.forEach(([, text], index) => put(facts[index][1], text(path)));
      put(facts.at(-1)[1], price(budget));
      put(shared, path.shares_bottleneck_with ? `Shares a bottleneck with ${path.shares_bottleneck_with.replaceAll(" ", ", ")}` : "");
      chart.update(series, at);
    },
  };
}
