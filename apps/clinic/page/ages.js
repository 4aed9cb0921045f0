// Ages of the parts of the page, in words, and from when on they are stale.

/** Ages from which on something is stale, in ms: its period, and a second. */
export const STALE_MS = { ekg: 1000, vital: 2000, video: 1000, speech: 1000, objectives: 2000 };
/** Time without a state after which the hospital counts as lost, and everything as stale, in ms. */
export const LOST_MS = 1000;

/** A time in words. */
export function words(ms) { return ms < 10_000 ? `${ms.toFixed(0)} ms` : ms < 120_000 ? `${(ms / 1000).toFixed(0)} s` : `${(ms / 60_000).toFixed(0)} min`; }

/**
 * The label of a part. `age`: its age and the largest error, in ms, or null before anything has come; `silent`: time since the hospital's last
 * state, in ms; `isOver`: nothing follows. `isStale` also without a word about it, if it is over.
 */
export function label(name, age, silent, isOver) {
  if (age === null) return { text: "nothing yet", mark: "warn", isStale: false };
  const isStale = silent > LOST_MS || age.age > STALE_MS[name];
  const error = age.error === null ? ", clock not known yet" : ` ± ${Math.ceil(age.error)} ms`;
  const text = `${words(age.age)}${error} old`;
  if (isOver) return { text: `ended, ${text}`, mark: "warn", isStale };
  return { text: isStale ? `STALE, ${text}` : text, mark: isStale ? "bad" : "good", isStale };
}
