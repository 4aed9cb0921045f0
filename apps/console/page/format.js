// Numbers for people, with units.

function scaled(value, units, step) {
  let index = 0;
  while (Math.abs(value) >= step * 0.9995 && index < units.length - 1) { value /= step; index += 1; }
  const digits = value === 0 || Math.abs(value) >= 100 || (index === 0 && Number.isInteger(value)) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[index]}`;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A rate of bit/s. */
export const rate = (bps) => known(bps) ? scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000) : "–";
/** Bytes. */
export const bytes = (count) => known(count) ? scaled(count, ["B", "kB", "MB", "GB", "TB"], 1000) : "–";
/** Milliseconds. */
export const time = (ms) => !known(ms) ? "–" : ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`
  : ms < 9950 ? `${Number((ms / 1000).toFixed(1))} s` : age(ms / 1000);
/** A fraction as a percentage. */
export const percent = (part) => !known(part) ? "–" : `${(part * 100).toFixed(part > 0 && part < 0.1 ? 2 : 1)} %`;
/** A count. */
export const count = (value) => known(value) ? String(value) : "–";

/** Seconds as a time that one would say. */
export function age(exact) {
  if (!known(exact)) return "–";
  const seconds = Math.round(exact);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The local time of a Unix time in ms. */
export const clock = (unix) => new Date(unix).toLocaleTimeString([], { hour12: false });

/** What a refusal offers, in words. */
export function offers(row) {
  const all = [];
  if (row.offer_rate_bps) all.push(`${rate(row.offer_rate_bps)} with the same probability`);
  if (row.offer_probability) all.push(`the same rate with ${percent(row.offer_probability)}`);
  if (row.offer_reduce_stream) all.push(`all of it, if ${row.offer_reduce_stream} asked for ${rate(row.offer_reduce_to_bps)}`);
  return all;
}
