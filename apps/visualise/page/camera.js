// Camera: turns about a centre. Matrices are in columns, as WebGL takes them.

const FIELD = 45 * Math.PI / 180;
const PITCH_MAX = 1.55;

function product(a, b) {
  const out = new Float64Array(16);
  for (let column = 0; column < 4; column += 1) {
    for (let row = 0; row < 4; row += 1) {
      let sum = 0;
      for (let k = 0; k < 4; k += 1) sum += a[k * 4 + row] * b[column * 4 + k];
      out[column * 4 + row] = sum;
    }
  }
  return out;
}

export class Camera {
  centre = [0, 0, 0];
  radius = 20;
  distance = 60;
  yaw = 0.6;
  pitch = 0.4;
  aspect = 1;

  /** Shows all of what is within `radius` of `centre`. */
  show(centre, radius) {
    this.centre = centre;
    this.radius = Math.max(radius, 1);
    this.distance = this.radius / Math.sin(FIELD / 2) * 1.05 / Math.min(1, this.aspect);
    this.yaw = 0.6;
    this.pitch = 0.4;
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.max(-PITCH_MAX, Math.min(PITCH_MAX, this.pitch + pitch));
  }

  zoom(factor) {
    this.distance = Math.max(this.radius * 0.05, Math.min(this.radius * 40, this.distance * factor));
  }

  /** Moves by parts of the height of the picture. */
  move(right, up) {
    const [x, y] = this.#axes();
    const size = 2 * this.distance * Math.tan(FIELD / 2);
    this.centre = this.centre.map((at, axis) => at + size * (right * x[axis] + up * y[axis]));
  }

  /** Directions to the right, up and towards the eye. */
  #axes() {
    const [sy, cy, sp, cp] = [Math.sin(this.yaw), Math.cos(this.yaw), Math.sin(this.pitch), Math.cos(this.pitch)];
    return [[cy, 0, -sy], [-sy * sp, cp, -cy * sp], [sy * cp, sp, cy * cp]];
  }

  /** From places in the molecule to the picture. */
  matrix() {
    const axes = this.#axes();
    const eye = this.centre.map((at, axis) => at + this.distance * axes[2][axis]);
    const look = new Float64Array(16);
    axes.forEach((axis, row) => {
      for (let column = 0; column < 3; column += 1) look[column * 4 + row] = axis[column];
      look[12 + row] = -(axis[0] * eye[0] + axis[1] * eye[1] + axis[2] * eye[2]);
    });
    look[15] = 1;
    const near = this.distance * 0.02, far = this.distance + this.radius * 6;
    const scale = 1 / Math.tan(FIELD / 2);
    const lens = new Float64Array(16);
    lens[0] = scale / this.aspect;
    lens[5] = scale;
    lens[10] = -(far + near) / (far - near);
    lens[11] = -1;
    lens[14] = -2 * far * near / (far - near);
    return product(lens, look);
  }

  /** The half-spaces of what the picture shows, [a, b, c, d] with a·x + b·y + c·z + d ≥ 0 [Gribb, Hartmann 2001]. */
  planes() {
    const m = this.matrix();
    const row = (index) => [0, 1, 2, 3].map((column) => m[column * 4 + index]);
    const last = row(3);
    return [0, 1, 2].flatMap((index) => [1, -1].map((sign) => {
      const plane = row(index).map((part, at) => last[at] + sign * part);
      const length = Math.hypot(plane[0], plane[1], plane[2]) || 1;
      return plane.map((part) => part / length);
    }));
  }
}
