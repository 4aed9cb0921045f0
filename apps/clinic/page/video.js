// Video: pictures by WebCodecs, which takes the byte stream as it comes; in browsers without it, by MSE, for which each picture becomes a
// fragment of an MP4 (mp4.js). After a picture that did not come, nothing is shown until the next one at which a decoder can begin: what
// comes between would be damaged.

import { codecOf, Muxer } from "./mp4.js";

/** Pictures that wait for the decoder; beyond, the group is left out. */
const WAITING_MAX = 60;
/** Time over which the longest pause is counted, in ms. */
const PAUSE_MS = 60_000;
/** Lag of a player behind what is there, beyond which it jumps, in seconds. */
const LAG = 0.3;
/** Time after which a key picture is asked for again, in ms. */
const AGAIN_MS = 3000;

/** Decoder of WebCodecs, drawing on a canvas. */
class Decoder {
  #decoder = null;
  #dates = new Map();

  constructor(canvas, shown, failed) {
    Object.assign(this, { canvas, shown, failed, name: "WebCodecs" });
  }

  static async takes(codec) {
    if (typeof VideoDecoder === "undefined") return false;
    try { return (await VideoDecoder.isConfigSupported({ codec })).supported === true; } catch { return false; }
  }

  begin(codec) {
    this.end();
    this.#decoder = new VideoDecoder({
      output: (frame) => {
        const { canvas } = this;
        if (canvas.width !== frame.displayWidth || canvas.height !== frame.displayHeight) [canvas.width, canvas.height] = [frame.displayWidth, frame.displayHeight];
        canvas.getContext("2d").drawImage(frame, 0, 0);
        const date = this.#dates.get(frame.timestamp);
        for (const key of this.#dates.keys()) if (key <= frame.timestamp) this.#dates.delete(key);
        frame.close();
        if (date) this.shown(date);
      },
      error: (error) => this.failed(error.message),
    });
    this.#decoder.configure({ codec, optimizeForLatency: true });
  }

  /** False if the decoder is behind. */
  give(picture) {
    if (this.#decoder?.state !== "configured" || this.#decoder.decodeQueueSize > WAITING_MAX) return false;
    this.#dates.set(picture.number, picture.dated);
    this.#decoder.decode(new EncodedVideoChunk({ type: picture.isKey ? "key" : "delta", timestamp: picture.number, data: picture.body }));
    return true;
  }

  end() {
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
    this.#dates.clear();
  }
}

/** Player of fragments (MSE). */
class Player {
  #muxer = null;
  #source = null;
  #buffer = null;
  #waiting = [];
  /** Pictures by the time at which the player shows them. */
  #dates = [];
  #over = new AbortController();

  constructor(element, shown, failed) {
    Object.assign(this, { element, shown, failed, name: "MSE" });
    const { signal } = this.#over;
    element.addEventListener("error", () => failed(element.error?.message || "the player failed"), { signal });
    const look = () => {
      if (signal.aborted) return;
      let date = null;
      while (this.#dates.length > 0 && this.#dates[0].time <= element.currentTime + 1e-3) date = this.#dates.shift().dated;
      if (date) shown(date);
      element.requestVideoFrameCallback(look);
    };
    if (element.requestVideoFrameCallback) element.requestVideoFrameCallback(look);
    else element.addEventListener("timeupdate", () => { while (this.#dates.length > 0 && this.#dates[0].time <= element.currentTime) shown(this.#dates.shift().dated); }, { signal });
  }

  static async takes(codec) {
    return typeof MediaSource !== "undefined" && MediaSource.isTypeSupported(`video/mp4; codecs="${codec}"`);
  }

  begin(codec, key) {
    this.#muxer = new Muxer(key.body);
    this.#source = new MediaSource();
    this.element.hidden = false;
    this.element.src = URL.createObjectURL(this.#source);
    this.#source.addEventListener("sourceopen", () => {
      if (this.#source?.readyState !== "open" || this.#buffer) return;
      this.#buffer = this.#source.addSourceBuffer(`video/mp4; codecs="${codec}"`);
      this.#buffer.addEventListener("updateend", () => this.#push());
      this.#waiting.unshift(this.#muxer.init());
      this.#push();
    });
  }

  give(picture) {
    if (!this.#muxer || this.#waiting.length > WAITING_MAX) return false;
    const { time, bytes } = this.#muxer.fragment(picture);
    this.#waiting.push(bytes);
    this.#dates.push({ time, dated: picture.dated });
    if (this.#dates.length > 2 * WAITING_MAX) this.#dates.shift();
    this.#push();
    return true;
  }

  #push() {
    const { element } = this;
    if (!this.#buffer || this.#buffer.updating || element.error) return;
    try {
      const ranges = element.buffered;
      if (ranges.length > 0) {
        const [begin, end] = [ranges.start(0), ranges.end(ranges.length - 1)];
        if (end - element.currentTime > LAG || element.currentTime < begin) element.currentTime = Math.max(begin, end - LAG / 3);
        if (element.paused) element.play().catch((error) => { if (error.name !== "AbortError") this.failed(error.message); });
        if (element.currentTime - begin > 20) { this.#buffer.remove(begin, element.currentTime - 10); return; }
      }
      if (this.#waiting.length === 0) return;
      this.#buffer.appendBuffer(joined(this.#waiting.splice(0)));
    } catch (error) { this.failed(error.message); }
  }

  end() {
    this.#over.abort();
    if (this.#source) URL.revokeObjectURL(this.element.src);
    [this.#muxer, this.#source, this.#buffer, this.#waiting, this.#dates] = [null, null, null, [], []];
  }
}

function joined(pieces) {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) { all.set(piece, at); at += piece.length; }
  return all;
}

export class Video {
  /** Date of the picture that is shown; null: none. */
  dated = null;
  /** Pictures that were shown, those that were of no use after a loss, and those that this browser left out. */
  shown = 0;
  unusable = 0;
  leftOut = 0;
  trouble = null;
  #canvas;
  #element;
  #codec = null;
  #output = null;
  #case = 0;
  #last = null;
  #isWaiting = true;
  /** True if it waits because of the browser, which failed or was too slow. */
  #isOwnFault = false;
  /** Pictures that wait while it is found out what the browser can do; null: it is known. */
  #pending = null;
  #pauses = [];
  #shownAt = null;
  #want;
  #wantedAt = -Infinity;

  /** Calls `want` with the case and the number of the last picture when a key picture is wanted. */
  constructor(canvas, element, want) {
    [this.#canvas, this.#element, this.#want] = [canvas, element, want];
  }

  get words() {
    if (this.trouble) return this.trouble;
    if (this.#output === null) return "";
    const pause = this.pause, isWaiting = this.#isWaiting && this.#last !== null;
    const wait = isWaiting ? ` Waits for the next key picture after ${this.#isOwnFault ? "pictures that were left out" : "a loss"}.` : "";
    const leftOut = this.leftOut > 0 ? `, ${this.leftOut} left out by this browser, which was too slow or failed` : "";
    return `${this.shown} pictures shown by ${this.#output.name}, ${this.unusable} of no use after a loss${leftOut}; longest pause of the last minute ${pause.toFixed(0)} ms.${wait}`;
  }

  /** Longest time between two pictures that were shown, in the last minute, in ms. */
  get pause() {
    const now = performance.now();
    this.#pauses = this.#pauses.filter((one) => now - one.at < PAUSE_MS);
    return this.#pauses.reduce((longest, one) => Math.max(longest, one.pause), this.#shownAt === null ? 0 : now - this.#shownAt);
  }

  take(picture) {
    if (picture.case !== this.#case) this.#reset(picture.case);
    // A new session may count from where it was, or not at all: a smaller number begins anew.
    const follows = this.#last !== null && picture.number === this.#last + 1;
    this.#last = picture.number;
    if (!follows && !picture.isKey) this.#isWaiting = true;
    if (picture.isKey) [this.#isWaiting, this.#isOwnFault, this.#wantedAt] = [false, false, -Infinity];
    if (this.#isWaiting) {
      if (this.#isOwnFault) this.leftOut += 1;
      else this.unusable += 1;
      const now = performance.now();
      if (!this.trouble && now - this.#wantedAt > AGAIN_MS) {
        this.#wantedAt = now;
        this.#want({ case: picture.case, after: picture.number });
      }
      return;
    }
    if (this.#pending) {
      this.#pending.push(picture);
      if (this.#pending.length > WAITING_MAX) this.#pending.shift();
      return;
    }
    if (picture.isKey) {
      const codec = codecOf(picture.body);
      if (codec !== this.#codec) { this.#choose(codec, picture); return; }
    }
    this.#give(picture);
  }

  #give(picture) {
    if (this.#output && !this.trouble && this.#output.give(picture)) return;
    this.leftOut += 1;
    [this.#isWaiting, this.#isOwnFault] = [true, true];
  }

  async #choose(codec, key) {
    this.#pending = [key];
    this.#codec = codec;
    this.#output?.end();
    this.#output = null;
    const done = (dated) => this.#done(dated), failed = (words) => this.#failed(words);
    const isDecoded = codec !== null && await Decoder.takes(codec), isPlayed = !isDecoded && codec !== null && await Player.takes(codec);
    this.#canvas.hidden = isPlayed;
    this.#element.hidden = !isPlayed;
    this.trouble = isDecoded || isPlayed ? null : `This browser cannot decode the video (H.264${codec ? `, ${codec}` : ""}): it has neither WebCodecs nor MSE for it. The hospital keeps it all the same.`;
    const pending = this.#pending;
    this.#pending = null;
    if (this.trouble) return;
    this.#output = isDecoded ? new Decoder(this.#canvas, done, failed) : new Player(this.#element, done, failed);
    this.#output.begin(codec, key);
    for (const picture of pending) this.#give(picture);
  }

  #done(dated) {
    const now = performance.now();
    if (this.#shownAt !== null) this.#pauses.push({ at: now, pause: now - this.#shownAt });
    [this.#shownAt, this.dated] = [now, dated];
    this.shown += 1;
  }

  /** A decoder that failed is begun anew with the next key picture. */
  #failed(words) {
    console.warn(`video: ${words}`);
    this.#output?.end();
    [this.#codec, this.#output, this.#isWaiting, this.#isOwnFault] = [null, null, true, true];
  }

  #reset(number) {
    this.#output?.end();
    [this.#case, this.#codec, this.#output, this.#last, this.#isWaiting, this.dated, this.#shownAt, this.#pauses] = [number, null, null, null, true, null, null, []];
    [this.shown, this.unusable, this.leftOut, this.#isOwnFault, this.trouble] = [0, 0, 0, false, null];
  }
}
