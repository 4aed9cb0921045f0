// Fragmented MP4 (ISO/IEC 14496-12 and 14496-15) of pictures of H.264, a fragment each, for browsers without WebCodecs.

const START = [0, 0, 0, 1], SET = 7, PICTURE_SET = 8;
/** Ticks per second, and bounds of the time of a picture in ticks. */
const TIMESCALE = 1000, TICKS = { usual: 40, min: 5, max: 200 };

/** NAL units of an access unit, each after a start code of four bytes. */
export function* units(bytes) {
  let begin = -1;
  for (let at = 0; at + 4 <= bytes.length; at += 1) {
    if (START.every((byte, index) => bytes[at + index] === byte)) {
      if (begin >= 0) yield bytes.subarray(begin, at);
      begin = at + 4;
      at += 3;
    }
  }
  if (begin >= 0) yield bytes.subarray(begin);
}

function setsOf(bytes) {
  const sets = [null, null];
  for (const unit of units(bytes)) {
    const kind = unit[0] & 0x1f;
    if (kind === SET || kind === PICTURE_SET) sets[kind - SET] ??= unit;
  }
  return sets;
}

/** Name of the codec of a picture with parameter sets (RFC 6381); null: it has none. */
export function codecOf(bytes) {
  const [set] = setsOf(bytes);
  return set && set.length > 3 ? `avc1.${[1, 2, 3].map((at) => set[at].toString(16).padStart(2, "0")).join("")}` : null;
}

/** Bits of a NAL unit, without its emulation prevention. */
class Bits {
  #bytes = [];
  #at = 0;

  constructor(unit) {
    let zeros = 0;
    for (const byte of unit) {
      if (byte === 3 && zeros >= 2) { zeros = 0; continue; }
      zeros = byte === 0 ? zeros + 1 : 0;
      this.#bytes.push(byte);
    }
  }

  bit() { const bit = (this.#bytes[this.#at >> 3] ?? 0) >> (7 - (this.#at & 7)) & 1; this.#at += 1; return bit; }
  bits(count) { let value = 0; for (let at = 0; at < count; at += 1) value = value * 2 + this.bit(); return value; }
  /** ue(v), H.264 §9.1. */
  golomb() { let zeros = 0; while (this.bit() === 0 && zeros < 31) zeros += 1; return 2 ** zeros - 1 + this.bits(zeros); }
  signed() { const value = this.golomb(); return value % 2 === 1 ? (value + 1) / 2 : -value / 2; }
}

/** Width and height of a sequence parameter set, H.264 §7.3.2.1.1. */
export function sizeOf(set) {
  const bits = new Bits(set.subarray(1)), profile = bits.bits(8);
  bits.bits(16);
  bits.golomb();
  let chroma = 1, isSeparate = 0;
  if ([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].includes(profile)) {
    chroma = bits.golomb();
    if (chroma === 3) isSeparate = bits.bit();
    bits.golomb(); bits.golomb(); bits.bit();
    if (bits.bit()) for (let list = 0; list < (chroma === 3 ? 12 : 8); list += 1) if (bits.bit()) {
      for (let at = 0, last = 8, next = 8; at < (list < 6 ? 16 : 64); at += 1) {
        if (next !== 0) next = (last + bits.signed() + 256) % 256;
        last = next === 0 ? last : next;
      }
    }
  }
  bits.golomb();
  const order = bits.golomb();
  if (order === 0) bits.golomb();
  else if (order === 1) { bits.bit(); bits.signed(); bits.signed(); for (let left = Math.min(255, bits.golomb()); left > 0; left -= 1) bits.signed(); }
  bits.golomb(); bits.bit();
  const wide = bits.golomb() + 1, high = bits.golomb() + 1, isFrame = bits.bit();
  if (!isFrame) bits.bit();
  bits.bit();
  const crop = bits.bit() ? [bits.golomb(), bits.golomb(), bits.golomb(), bits.golomb()] : [0, 0, 0, 0];
  const [stepX, stepY] = chroma === 0 || isSeparate ? [1, 1] : [chroma === 3 ? 1 : 2, chroma === 1 ? 2 : 1];
  return [wide * 16 - stepX * (crop[0] + crop[1]), (2 - isFrame) * (high * 16 - stepY * (crop[2] + crop[3]))];
}

const u16 = (value) => [value >> 8 & 255, value & 255];
const u32 = (value) => [value >>> 24, value >> 16 & 255, value >> 8 & 255, value & 255];
const u64 = (value) => [...u32(Math.floor(value / 2 ** 32)), ...u32(value % 2 ** 32)];
const zeros = (count) => new Array(count).fill(0);
const text = (letters) => [...letters].map((letter) => letter.charCodeAt(0));
const box = (name, ...parts) => { const body = parts.flat(); return [...u32(8 + body.length), ...text(name), ...body]; };
const full = (name, version, flags, ...parts) => box(name, [version, ...u32(flags).slice(1)], ...parts);
const MATRIX = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000].flatMap(u32);

export class Muxer {
  #sets;
  #time = 0;
  #fragments = 0;
  #before = null;

  /** `key`: a picture with parameter sets. */
  constructor(key) { this.#sets = setsOf(key); }

  init() {
    const [set, picture] = this.#sets.map((unit) => [...unit]), [width, height] = sizeOf(this.#sets[0]);
    const config = box("avcC", [1, set[1], set[2], set[3], 0xff, 0xe1], u16(set.length), set, [1], u16(picture.length), picture);
    const entry = box("avc1", zeros(6), u16(1), zeros(16), u16(width), u16(height), u32(0x480000), u32(0x480000), u32(0), u16(1), zeros(32), u16(24), u16(0xffff), config);
    const tables = box("stbl", full("stsd", 0, 0, u32(1), entry), full("stts", 0, 0, u32(0)), full("stsc", 0, 0, u32(0)), full("stsz", 0, 0, zeros(8)), full("stco", 0, 0, u32(0)));
    const media = box("minf", full("vmhd", 0, 1, zeros(8)), box("dinf", full("dref", 0, 0, u32(1), full("url ", 0, 1))), tables);
    const track = box("trak",
      full("tkhd", 0, 7, zeros(8), u32(1), zeros(8), zeros(8), zeros(8), MATRIX, u32(width * 65536), u32(height * 65536)),
      box("mdia", full("mdhd", 0, 0, zeros(8), u32(TIMESCALE), u32(0), u16(0x55c4), u16(0)), full("hdlr", 0, 0, u32(0), text("vide"), zeros(13)), media));
    const movie = box("moov",
      full("mvhd", 0, 0, zeros(8), u32(TIMESCALE), u32(0), u32(0x10000), u16(0x100), zeros(10), MATRIX, zeros(24), u32(2)),
      track, box("mvex", full("trex", 0, 0, u32(1), u32(1), zeros(12))));
    return new Uint8Array([...box("ftyp", text("iso6"), u32(0), text("iso6mp41")), ...movie]);
  }

  /** A picture as a fragment, and its time in the player, in seconds. Pictures follow each other without pauses. */
  fragment({ isKey, dated, body }) {
    const since = this.#before === null ? TICKS.usual : (dated.at_us - this.#before) / 1e6 * TIMESCALE;
    const ticks = Math.round(Math.min(TICKS.max, Math.max(TICKS.min, since)));
    this.#before = dated.at_us;
    const nals = [...units(body)], bytes = nals.reduce((sum, unit) => sum + 4 + unit.length, 0);
    const moof = (offset) => box("moof", full("mfhd", 0, 0, u32(this.#fragments + 1)), box("traf",
      full("tfhd", 0, 0x20000, u32(1)), full("tfdt", 1, 0, u64(this.#time)),
      full("trun", 0, 0x701, u32(1), u32(offset), u32(ticks), u32(bytes), u32(isKey ? 0x02000000 : 0x01010000))));
    const head = [...moof(moof(0).length + 8), ...u32(8 + bytes), ...text("mdat")];
    const fragment = new Uint8Array(head.length + bytes);
    fragment.set(head);
    let at = head.length;
    for (const unit of nals) {
      fragment.set(u32(unit.length), at);
      fragment.set(unit, at + 4);
      at += 4 + unit.length;
    }
    const time = this.#time / TIMESCALE;
    this.#time += ticks;
    this.#fragments += 1;
    return { time, bytes: fragment };
  }
}
