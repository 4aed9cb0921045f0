// Atoms as points and bonds as lines, by WebGL.

const VERTEX = `
attribute vec3 place;
attribute vec3 colour;
uniform mat4 matrix;
uniform float size;
varying vec3 shade;
void main() {
  gl_Position = matrix * vec4(place, 1.0);
  gl_PointSize = clamp(size / max(gl_Position.w, 0.001), 1.5, 24.0);
  shade = colour;
}`;
const FRAGMENT = `
precision mediump float;
uniform vec3 flat_colour;
uniform float is_point;
varying vec3 shade;
void main() {
  if (is_point > 0.5) {
    vec2 from = gl_PointCoord - vec2(0.5);
    if (dot(from, from) > 0.25) discard;
    gl_FragColor = vec4(shade, 1.0);
  } else {
    gl_FragColor = vec4(flat_colour, 1.0);
  }
}`;
/** Colours of elements by atomic number, as is usual for molecules. */
const COLOURS = { 1: [0.72, 0.74, 0.78], 6: [0.42, 0.45, 0.5], 7: [0.25, 0.42, 0.95], 8: [0.9, 0.22, 0.2], 15: [0.95, 0.55, 0.1], 16: [0.85, 0.72, 0.15] };
const OTHER = [0.3, 0.7, 0.5];
const BOND_BYTES = 28;

function compiled(gl, kind, text) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, text);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}

/** Places of both ends of each bond: numbers are left out. */
export function ends(body) {
  const count = Math.floor(body.byteLength / BOND_BYTES);
  const words = new Float32Array(body);
  const places = new Float32Array(count * 6);
  for (let bond = 0; bond < count; bond += 1) places.set(words.subarray(bond * 7 + 1, bond * 7 + 7), bond * 6);
  return places;
}

export class Scene {
  #gl; #program; #buffers = {}; #counts = [0, 0, 0]; #colours = 0;

  /** Throws if there is no WebGL. */
  constructor(canvas) {
    const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser shows no WebGL");
    this.canvas = canvas;
    this.#gl = gl;
    this.#start();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.#start());
  }

  #start() {
    const gl = this.#gl;
    this.#program = gl.createProgram();
    gl.attachShader(this.#program, compiled(gl, gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(this.#program, compiled(gl, gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(this.#program);
    for (const name of ["0", "1", "2", "colours"]) this.#buffers[name] = gl.createBuffer();
    this.#counts = [0, 0, 0];
    gl.enable(gl.DEPTH_TEST);
  }

  colour(elements) {
    const colours = new Float32Array(elements.length * 3);
    elements.forEach((element, atom) => colours.set(COLOURS[element] ?? OTHER, atom * 3));
    this.#colours = elements.length;
    this.#fill("colours", colours);
  }

  #fill(name, data) {
    const gl = this.#gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
  }

  /** Sets the places of a part: of atoms, or of both ends of bonds. */
  set(part, places) {
    this.#fill(String(part), places);
    this.#counts[part] = places.length / 3;
  }

  draw(camera, colours) {
    const gl = this.#gl, { canvas } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.max(1, Math.round(size * devicePixelRatio)));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    gl.viewport(0, 0, width, height);
    gl.clearColor(...colours.page, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.#program);
    const at = (name) => gl.getUniformLocation(this.#program, name);
    gl.uniformMatrix4fv(at("matrix"), false, new Float32Array(camera.matrix()));
    gl.uniform1f(at("size"), height * 0.5);
    const place = gl.getAttribLocation(this.#program, "place"), colour = gl.getAttribLocation(this.#program, "colour");
    const bind = (name, attribute) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.#buffers[name]);
      gl.enableVertexAttribArray(attribute);
      gl.vertexAttribPointer(attribute, 3, gl.FLOAT, false, 0, 0);
    };
    gl.disableVertexAttribArray(colour);
    for (const [part, flat] of [[2, colours.bond2], [1, colours.bond1]]) {
      if (this.#counts[part] === 0) continue;
      gl.uniform1f(at("is_point"), 0);
      gl.uniform3f(at("flat_colour"), ...flat);
      bind(String(part), place);
      gl.drawArrays(gl.LINES, 0, this.#counts[part]);
    }
    if (this.#counts[0] > 0 && this.#counts[0] === this.#colours) {
      gl.uniform1f(at("is_point"), 1);
      bind("colours", colour);
      bind("0", place);
      gl.drawArrays(gl.POINTS, 0, this.#counts[0]);
    }
  }
}
