// Speech of this page: the microphone, encoded in packets of Opus (WebCodecs), and sent to the hospital, a request after the other.

import { post } from "./feed.js";

const CONFIG = { codec: "opus", sampleRate: 48_000, numberOfChannels: 1, bitrate: 24_000, opus: { frameDuration: 20_000, application: "voip" } };
const PACKET_US = 20_000;
/** Packets that wait for the request before; the oldest are lost beyond. */
const WAITING_MAX = 20;

export class Talk {
  /** Packets that were sent, and lost because they waited too long. */
  sent = 0;
  lost = 0;
  trouble = null;
  #speaker = crypto.getRandomValues(new Uint32Array(1))[0];
  #case = 0;
  #name = "";
  #open = null;
  #waiting = [];
  #isSending = false;

  get isOn() { return this.#open !== null; }

  get words() {
    if (this.trouble) return this.trouble;
    return this.isOn ? `You are heard: ${this.sent} packets sent, ${this.lost} lost here.` : "";
  }

  /** Begins or ends speaking to the ambulance of a case. */
  async toggle(number, name) {
    if (this.isOn) { await this.stop(); return; }
    this.trouble = await missing();
    if (this.trouble) return;
    [this.#case, this.#name, this.sent, this.lost, this.#waiting] = [number, name, 0, 0, []];
    let stream = null, context = null;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true } });
      context = new AudioContext({ sampleRate: CONFIG.sampleRate, latencyHint: "interactive" });
      await context.audioWorklet.addModule("/mic.js");
      await context.resume();
      const encoder = new AudioEncoder({ output: (chunk) => this.#encoded(chunk), error: (error) => this.stop(`The microphone cannot be encoded: ${error.message}`) });
      encoder.configure(CONFIG);
      const mic = new AudioWorkletNode(context, "mic", { numberOfInputs: 1, numberOfOutputs: 0 });
      let number = 0;
      mic.port.onmessage = ({ data }) => {
        if (encoder.state !== "configured" || encoder.encodeQueueSize > WAITING_MAX) { this.lost += 1; return; }
        const sound = new AudioData({ format: "f32-planar", sampleRate: CONFIG.sampleRate, numberOfFrames: data.length, numberOfChannels: 1, timestamp: number * PACKET_US, data });
        number += 1;
        encoder.encode(sound);
        sound.close();
      };
      context.createMediaStreamSource(stream).connect(mic);
      for (const track of stream.getTracks()) track.addEventListener("ended", () => this.stop("The microphone is gone."));
      this.#open = { stream, context, encoder };
    } catch (error) {
      for (const track of stream?.getTracks() ?? []) track.stop();
      context?.close();
      this.trouble = error.name === "NotAllowedError" ? "The browser does not allow the microphone." : `There is no microphone: ${error.message}`;
    }
  }

  async stop(why = null) {
    const open = this.#open;
    if (open === null) return;
    this.#open = null;
    this.trouble = why;
    for (const track of open.stream.getTracks()) track.stop();
    if (open.encoder.state !== "closed") open.encoder.close();
    open.context.close();
    this.#waiting = [];
    // It ends by itself without this.
    if (why === null) await this.#post([], true).catch(() => {});
  }

  #post(packets, isOver) {
    return post("/api/speak", { case: this.#case, speaker: this.#speaker, name: this.#name, packets, is_over: isOver });
  }

  #encoded(chunk) {
    if (!this.isOn) return;
    const bytes = new Uint8Array(chunk.byteLength);
    chunk.copyTo(bytes);
    this.#waiting.push({ at: performance.now(), data: Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("") });
    if (this.#waiting.length > WAITING_MAX) { this.#waiting.shift(); this.lost += 1; }
    this.#send();
  }

  async #send() {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      while (this.isOn && this.#waiting.length > 0) {
        const now = performance.now(), packets = this.#waiting.splice(0);
        const answer = await (await this.#post(packets.map(({ at, data }) => ({ age_ms: now - at, data })), false)).json();
        this.sent += packets.length - answer.lost;
        this.lost += answer.lost;
      }
    } catch (error) {
      await this.stop(`You are not heard: ${error.message}.`);
    } finally { this.#isSending = false; }
  }
}

/** Reason for which this browser cannot send speech; null: it can. */
async function missing() {
  if (!isSecureContext || !navigator.mediaDevices) return "The browser gives no microphone to this page: its address is none of this machine, and not encrypted.";
  if (typeof AudioEncoder === "undefined" || typeof AudioWorkletNode === "undefined") return "This browser cannot send speech: it has no AudioEncoder (WebCodecs).";
  try { if ((await AudioEncoder.isConfigSupported(CONFIG)).supported) return null; } catch { /* it is none of its own */ }
  return "This browser cannot send speech: its AudioEncoder has no Opus.";
}
