// What the node said over the last minutes, for charts: one series of columns for each path.

/** Seconds shown. */
export const SPAN = 120;
const MOST = SPAN * 4 + 8;

export const COLUMNS = {
  rate: (path) => path.rate_delivered_bps,
  p10: (path) => path.bandwidth_p10_bps,
  p50: (path) => path.bandwidth_p50_bps,
  p90: (path) => path.bandwidth_p90_bps,
  promised: (path) => path.streams_promised_bps,
};

export const keyOf = (path) => `${path.session} ${path.channel}`;

export class History {
  #paths = new Map();
  #at = 0;

  /** Adds a state. Paths that are gone are forgotten, and all of them when the node was started again. */
  add(state) {
    if (state.at < this.#at) this.#paths.clear();
    this.#at = state.at;
    const seen = new Set();
    for (const path of state.paths) {
      const key = keyOf(path);
      seen.add(key);
      let series = this.#paths.get(key);
      if (!series) {
        series = { at: [], ...Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, []])) };
        this.#paths.set(key, series);
      }
      series.at.push(state.at);
      for (const [name, of] of Object.entries(COLUMNS)) series[name].push(of(path) ?? null);
      if (series.at.length > MOST) for (const column of Object.values(series)) column.splice(0, column.length - MOST);
    }
    for (const key of this.#paths.keys()) if (!seen.has(key)) this.#paths.delete(key);
  }

  /** Series of a path. */
  of(path) { return this.#paths.get(keyOf(path)); }
}
