// Samples of a microphone, in packets of 20 ms at 48 kHz: part of the page that runs beside it (an audio worklet).

const PACKET_SAMPLES = 960;

registerProcessor("mic", class extends AudioWorkletProcessor {
  #samples = new Float32Array(PACKET_SAMPLES);
  #held = 0;

  process([[channel]]) {
    for (let at = 0; channel && at < channel.length;) {
      const part = channel.subarray(at, at + PACKET_SAMPLES - this.#held);
      this.#samples.set(part, this.#held);
      this.#held += part.length;
      at += part.length;
      if (this.#held < PACKET_SAMPLES) continue;
      this.port.postMessage(this.#samples, [this.#samples.buffer]);
      [this.#samples, this.#held] = [new Float32Array(PACKET_SAMPLES), 0];
    }
    return true;
  }
});
