// Leads on a grid of millimetres, 25 mm/s and 10 mm/mV, written from left to right again and again. What did not come is shaded, and the
// line is never drawn across it. Millimetres are those of CSS; on a screen they can have another size.

const MM = 96 / 25.4, MM_PER_SECOND = 25, MM_PER_MV = 10, ROW_MM = 20, TOP_MM = 5;
const LEADS_MAX = 12, KEPT_S = 40, INVALID = -32768;
/** Blank part before the place that is written, in seconds. */
const ERASED_S = 0.3;
const MV = { mv: 1, uv: 1e-3, "µv": 1e-3, v: 1e3 };

export class Leads {
  #canvas;
  #grid = null;
  #shape = "";
  #leads = [];
  #frequency = 0;
  #kept = 0;
  #samples = new Int16Array(0);
  /** Number of the frame in each place; -1: none. */
  #frames = new Float64Array(0);
  #from = Infinity;
  #next = 0;
  isDirty = true;

  constructor(canvas) {
    this.#canvas = canvas;
    new ResizeObserver(() => { this.#grid = null; this.isDirty = true; }).observe(canvas.parentElement);
  }

  /** Leads that cannot be drawn, in words; null: all are. */
  get leftOut() {
    const words = [];
    if (this.#leads.length > LEADS_MAX) words.push(`${LEADS_MAX} of ${this.#leads.length} leads are shown.`);
    const others = this.#leads.slice(0, LEADS_MAX).filter((lead) => lead.perMv === null);
    if (others.length > 0) words.push(`Not in mV, and not drawn: ${others.map((lead) => lead.name).join(", ")}.`);
    const raw = this.#leads.slice(0, LEADS_MAX).filter((lead) => !lead.isCalibrated);
    if (raw.length > 0) words.push(`Not calibrated, drawn with 200 units per mV: ${raw.map((lead) => lead.name).join(", ")}.`);
    return words.length > 0 ? words.join(" ") : null;
  }

  /** Leads of a case; others than before begin on blank paper. */
  set(number, ekg) {
    const shape = `${number} ${ekg.frequency} ${JSON.stringify(ekg.leads)}`;
    if (shape === this.#shape) return;
    this.#shape = shape;
    this.#leads = ekg.leads.map((lead) => {
      const perUnit = MV[lead.units.toLowerCase()] ?? null;
      return { name: lead.name, baseline: lead.baseline, isCalibrated: lead.gain !== null, perMv: perUnit === null ? null : perUnit / (lead.gain ?? 200) };
    });
    this.#frequency = ekg.frequency;
    this.#kept = Math.ceil(KEPT_S * ekg.frequency);
    this.#samples = new Int16Array(this.#kept * Math.min(LEADS_MAX, this.#leads.length));
    this.#frames = new Float64Array(this.#kept).fill(-1);
    [this.#from, this.#next, this.#grid, this.isDirty] = [Infinity, 0, null, true];
  }

  /** Takes frames from `number` on; true if none newer had come. */
  take({ number, leads, body }) {
    const shown = Math.min(LEADS_MAX, this.#leads.length);
    if (leads !== this.#leads.length || leads === 0) return false;
    const view = new DataView(body.buffer, body.byteOffset), frames = body.byteLength / 2 / leads;
    const isNewest = number + frames >= this.#next;
    for (let at = 0; at < frames; at += 1) {
      const place = (number + at) % this.#kept;
      if (this.#frames[place] > number + at) continue;
      this.#frames[place] = number + at;
      for (let lead = 0; lead < shown; lead += 1) this.#samples[place * shown + lead] = view.getInt16((at * leads + lead) * 2, true);
    }
    this.#from = Math.min(this.#from, number);
    this.#next = Math.max(this.#next, number + frames);
    this.isDirty = true;
    return isNewest;
  }

  /** Size and grid for the width that is there. */
  #fit(colours) {
    const canvas = this.#canvas, scale = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const shown = Math.max(1, Math.min(LEADS_MAX, this.#leads.length));
    const columns = shown > 1 && width > 480 ? 2 : 1, rows = Math.ceil(shown / columns), height = (rows * ROW_MM + TOP_MM) * MM;
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    canvas.style.height = `${height}px`;
    const sheet = document.createElement("canvas");
    [sheet.width, sheet.height] = [canvas.width, canvas.height];
    const pen = sheet.getContext("2d");
    pen.scale(scale, scale);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    for (const [step, colour] of [[1, colours.fine], [5, colours.coarse]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = 1;
      pen.beginPath();
      for (let x = 0; x * MM < width; x += step) { pen.moveTo(x * MM, 0); pen.lineTo(x * MM, height); }
      for (let y = 0; y * MM < height; y += step) { pen.moveTo(0, y * MM); pen.lineTo(width, y * MM); }
      pen.stroke();
    }
    this.#grid = { sheet, scale, width, columns, rows, column: Math.floor(width / columns) };
  }

  draw(colours) {
    if (!this.isDirty && this.#grid) return;
    if (!this.#grid) this.#fit(colours);
    this.isDirty = false;
    const { sheet, scale, columns, rows, column } = this.#grid, pen = this.#canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(sheet, 0, 0);
    pen.scale(scale, scale);
    const window = Math.min(this.#kept, Math.floor(column / MM / MM_PER_SECOND * this.#frequency));
    const shown = Math.min(LEADS_MAX, this.#leads.length);
    for (let lead = 0; lead < shown; lead += 1) {
      const left = columns === 1 ? 0 : Math.floor(lead / rows) * column, row = columns === 1 ? lead : lead % rows;
      const top = (row * ROW_MM + TOP_MM) * MM;
      if (window > 0) this.#line(pen, { lead, shown, left, top, column, window }, colours);
      pen.fillStyle = colours.trace;
      pen.font = "600 13px system-ui, sans-serif";
      [pen.strokeStyle, pen.lineWidth] = [colours.paper, 4];
      pen.strokeText(this.#leads[lead].name, left + 5, top + 6);
      pen.fillText(this.#leads[lead].name, left + 5, top + 6);
    }
  }

  #line(pen, { lead, shown, left, top, column, window }, colours) {
    const { baseline, perMv } = this.#leads[lead], next = this.#next, erased = Math.ceil(ERASED_S * this.#frequency);
    const middle = top + ROW_MM * MM / 2, lap = Math.floor(next / window) * window;
    const gaps = [];
    let isDown = false;
    pen.strokeStyle = colours.trace;
    pen.lineWidth = 1.2;
    pen.beginPath();
    for (let x = 0; x < column; x += 1) {
      const [begin, end] = [Math.floor(x * window / column), Math.floor((x + 1) * window / column)];
      let low = Infinity, high = -Infinity, first = null, last = null, isGap = false, isBlank = false;
      for (let place = begin; place < end; place += 1) {
        const frame = lap + place < next ? lap + place : lap + place - window;
        if (frame < 0 || frame < next - window + erased || frame < this.#from) { isBlank = true; continue; }
        const kept = frame % this.#kept, sample = this.#samples[kept * shown + lead];
        if (this.#frames[kept] !== frame || sample === INVALID) { isGap = true; continue; }
        if (perMv === null) continue;
        const y = middle - (sample - baseline) * perMv * MM_PER_MV * MM;
        [low, high, first, last] = [Math.min(low, y), Math.max(high, y), first ?? y, y];
      }
      if (isGap) { gaps.push(x); isDown = false; continue; }
      if (first === null) {
        if (isBlank) isDown = false;
        continue;
      }
      if (isDown) pen.lineTo(left + x, first); else pen.moveTo(left + x, first);
      if (low !== high) { pen.lineTo(left + x, low); pen.lineTo(left + x, high); pen.lineTo(left + x, last); }
      isDown = true;
    }
    pen.stroke();
    pen.fillStyle = colours.gap;
    for (const x of gaps) pen.fillRect(left + x, top + 2, 1, ROW_MM * MM - 4);
  }

  /** The grid is drawn anew, in other colours. */
  repaint() { this.#grid = null; this.isDirty = true; }
}
