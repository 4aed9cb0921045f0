// Speech of the ambulance: packets of Opus by WebCodecs. Each has its time, a short wait after its arrival, in which packets that overtook
// others find their order. The wait grows when packets come too late, and shrinks when they have not for a while.

/** Time of a packet, in seconds and in us. */
const PACKET_S = 0.02, PACKET_US = 20_000;
/** Wait at first, longest wait, and time that is always left of it, in seconds. */
const WAIT_S = 0.1, WAIT_MAX_S = 0.4, SPARE_S = 0.04;
/** Time before a packet is due at which it is decoded, in seconds. */
const DECODE_S = 0.04;
/** Time over which the shortest wait is looked at, in seconds. */
const WINDOW_S = 5;
/** Packets that wait, and packets that wait for the decoder: on a busy machine it is skipped rather than heard ever later. */
const WAITING_MAX = 50, DECODING_MAX = 10;
const TICK_MS = 10;

export class Speech {
  /** Date of the newest packet that was played, or came while nobody listens; null: none. */
  dated = null;
  /** Packets that were played, and those that came too late for it. */
  played = 0;
  late = 0;
  /** Loudness of the last packet, from 0 to 1. */
  level = 0;
  trouble = null;
  #case = 0;
  #context = null;
  #decoder = null;
  /** Packets by number, and the time of the context at which number 0 would be due. */
  #waiting = new Map();
  #base = null;
  #next = 0;
  /** Packets in the decoder, in order. Its own times are no help: after a packet that was left out they count on as if none had been. */
  #decoding = [];
  #shortest = Infinity;
  #windowAt = 0;
  #timer = null;

  /** Begins or ends listening. */
  async toggle() {
    if (this.isOn) { this.#stop(); return; }
    if (typeof AudioDecoder === "undefined") { this.trouble = "This browser cannot play the speech: it has no AudioDecoder (WebCodecs). The hospital keeps it all the same."; return; }
    this.#context = new AudioContext({ sampleRate: 48_000, latencyHint: "interactive" });
    await this.#context.resume();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  get isOn() { return this.#context !== null; }

  get words() {
    if (this.trouble) return this.trouble;
    if (!this.isOn) return "Press Listen to hear it.";
    const wait = this.#base === null ? "" : ` They wait ${(1000 * this.#wait).toFixed(0)} ms at least.`;
    return `${this.played} packets played, ${this.late} came too late to be played.${wait}`;
  }

  /** Shortest wait in this window, in seconds. */
  get #wait() { return this.#shortest === Infinity ? 0 : Math.max(0, this.#shortest); }

  take(packet) {
    if (packet.case !== this.#case) [this.#case, this.#base, this.dated, this.played, this.late] = [packet.case, null, null, 0, 0];
    if (!this.isOn) { this.dated = packet.dated; return; }
    const now = this.#context.currentTime;
    let spare = this.#base === null ? null : this.#base + packet.number * PACKET_S - now;
    // The first one, after a pause, or after a jump: begin anew.
    if (spare === null || Math.abs(spare) > 1) {
      this.#base = now + WAIT_S - packet.number * PACKET_S;
      this.#waiting.clear();
      [this.#next, this.#shortest, this.#windowAt, spare] = [packet.number, WAIT_S, now, WAIT_S];
    }
    if (spare > WAIT_MAX_S) { this.#base += WAIT_MAX_S - spare; spare = WAIT_MAX_S; }
    this.#shortest = Math.min(this.#shortest, spare);
    if (spare < 0 || packet.number < this.#next) {
      this.late += 1;
      if (packet.number >= this.#next) this.#base += SPARE_S - spare;
      return;
    }
    if (now - this.#windowAt > WINDOW_S) {
      // What is left over at the end of a window is not needed; a packet is left out for it.
      if (this.#shortest > SPARE_S + DECODE_S + PACKET_S) this.#base -= PACKET_S;
      [this.#shortest, this.#windowAt] = [spare, now];
    }
    this.#waiting.set(packet.number, packet);
    if (this.#waiting.size > WAITING_MAX) this.#waiting.delete(Math.min(...this.#waiting.keys()));
    this.#tick();
  }

  #tick() {
    if (this.#base === null) return;
    const now = this.#context.currentTime;
    // One that follows is decoded at once; another waits for those before it until its time.
    for (const number of [...this.#waiting.keys()].sort((one, other) => one - other)) {
      if (number !== this.#next && this.#base + number * PACKET_S > now + DECODE_S) break;
      const packet = this.#waiting.get(number);
      this.#waiting.delete(number);
      this.#next = number + 1;
      this.#decode(packet);
    }
  }

  #decode(packet) {
    // Bit 2 of the first byte: two channels (RFC 6716 §3.1).
    const channels = (packet.body[0] & 4) === 0 ? 1 : 2;
    try {
      if (this.#decoder?.state !== "configured" || this.#decoder.channels !== channels) {
        if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
        this.#decoding = [];
        this.#decoder = new AudioDecoder({ output: (data) => this.#play(data), error: (error) => console.warn(`speech: ${error.message}`) });
        this.#decoder.configure({ codec: "opus", sampleRate: 48_000, numberOfChannels: channels });
        this.#decoder.channels = channels;
      }
      if (this.#decoder.decodeQueueSize >= DECODING_MAX) { this.late += 1; return; }
      this.#decoding.push(packet);
      this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: packet.number * PACKET_US, duration: PACKET_US, data: packet.body }));
    } catch (error) { console.warn(`speech: ${error.message}`); }
  }

  #play(data) {
    const packet = this.#decoding.shift(), context = this.#context;
    if (!packet || context === null || this.#base === null) { data.close(); return; }
    const buffer = context.createBuffer(data.numberOfChannels, data.numberOfFrames, data.sampleRate), at = this.#base + packet.number * PACKET_S;
    let peak = 0;
    for (let channel = 0; channel < data.numberOfChannels; channel += 1) {
      const samples = buffer.getChannelData(channel);
      data.copyTo(samples, { planeIndex: channel, format: "f32-planar" });
      for (const sample of samples) peak = Math.max(peak, Math.abs(sample));
    }
    data.close();
    this.level = Math.min(1, peak);
    // Later ones wait for longer, within the bound.
    if (at < context.currentTime) { this.late += 1; this.#base += context.currentTime - at + PACKET_S; return; }
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(context.destination);
    source.start(at);
    this.played += 1;
    this.dated = packet.dated;
  }

  #stop() {
    clearInterval(this.#timer);
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#context.close();
    this.#waiting.clear();
    this.#decoding = [];
    [this.#context, this.#decoder, this.#base, this.level] = [null, null, null, 0];
  }
}
