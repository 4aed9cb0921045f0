// Clock of the hospital, from questions that it answers at once. The shortest of the last 16 round trips counts; the error is at most half
// of it.

import { answered } from "./feed.js";

const SAMPLES = 16;

export class Clock {
  #samples = [];

  async ask() {
    const begin = performance.now();
    const { now_us: now } = await (await answered(await fetch("/api/clock"))).json();
    const end = performance.now();
    this.#samples.push({ trip: end - begin, difference: now / 1000 - (begin + end) / 2 });
    if (this.#samples.length > SAMPLES) this.#samples.shift();
  }

  /** Age of something with a date of the hospital, and its largest error, in ms; the error is null while a clock is not known. */
  age({ at_us: at, error_us: error }) {
    if (this.#samples.length === 0) return null;
    const best = this.#samples.reduce((one, other) => other.trip < one.trip ? other : one);
    const age = Math.max(0, performance.now() + best.difference - at / 1000);
    return { age, error: error === null ? null : error / 1000 + best.trip / 2 };
  }
}
