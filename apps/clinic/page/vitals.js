// Heart rate with limits, and alarms: for a rate beyond them, and for silence.

/** Time without samples after which silence is an alarm, in ms. */
const SILENCE_MS = 2000;
const LIMITS = { low: 50, high: 120 };

function kept(name) {
  let text = null;
  try { text = localStorage.getItem(`limit-${name}`); } catch { /* a private window */ }
  const limit = Number(text);
  return text !== null && Number.isFinite(limit) ? limit : LIMITS[name];
}

export class Limits {
  #limits = {};

  /** Limits in the fields of the page; what a person sets is kept by the browser. */
  constructor(changed) {
    for (const name of ["low", "high"]) {
      const field = document.getElementById(name);
      this.#limits[name] = kept(name);
      field.value = this.#limits[name];
      field.addEventListener("input", () => {
        if (field.value === "" || !Number.isFinite(Number(field.value))) return;
        this.#limits[name] = Number(field.value);
        try { localStorage.setItem(`limit-${name}`, field.value); } catch { /* a private window */ }
        changed();
      });
    }
  }

  /** Alarms now, in words. `ages`: of the record and of the numbers, in ms, or null. */
  alarms(state, ages, isLost) {
    const alarms = [];
    if (state?.ekg && !state.ekg.has_ended) {
      const silent = ages.ekg;
      if (isLost || silent === null || silent > SILENCE_MS) alarms.push(`Silence: no ECG ${silent === null ? "yet" : `for ${(silent / 1000).toFixed(0)} s`}`);
    }
    const rate = state?.vital?.heart_rate;
    if (state?.vital && ages.vital !== null && ages.vital <= 3 * SILENCE_MS && !state.ekg?.has_ended) {
      if (rate === null) alarms.push("The heart rate is not known");
      else if (rate < this.#limits.low) alarms.push(`Heart rate ${rate.toFixed(0)}, below ${this.#limits.low}`);
      else if (rate > this.#limits.high) alarms.push(`Heart rate ${rate.toFixed(0)}, above ${this.#limits.high}`);
    }
    return alarms;
  }
}
