// Classical solvers: the package's own methods in JavaScript, on any grid of a plane or a line.
//
//   const solver = new SOLVERS["shallow-water"]({points: [64, 64], spacing, parameters});
//   solver.begin(state);      all that it needs to go on, (s, n0, n1) in one Float64Array
//   solver.advance(dt);       to the next frame, in as many steps as it needs
//   solver.state              (s, n0, n1); its first fields are those that are shown
//
// `draw(random, grid)` gives a start of the kind that the training data have, and
// `paint(field, value)` says where a brush moves each part of the state; null leaves it alone.
"use strict";

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** Uniform numbers from a seed: the same start for everybody who opens a link. */
function randomNumbers(seed) {
  let a = (seed >>> 0) + 0x6d2b79f5;
  const uniform = (low = 0, high = 1) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return low + (high - low) * (((t ^ (t >>> 14)) >>> 0) / 4294967296);
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return {uniform, normal, whole: (low, high) => Math.floor(uniform(low, high + 1))};
}

/** How each stage of Dormand and Prince's method is put together; row 5 is the step, row 6 its error. */
const DORMAND_PRINCE = [
  [1 / 5],
  [3 / 40, 9 / 40],
  [44 / 45, -56 / 15, 32 / 9],
  [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
  [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
];

/** du/dt = slope(u), Dormand–Prince 5(4) with error control: what reaction and diffusion share. */
class ErrorControlled {
  constructor({points, spacing, parameters = {}, tolerance = 1e-4}) {
    Object.assign(this, {points, spacing, parameters, tolerance});
    this.cells = points[0] * points[1];
  }

  begin(state) {
    this.state = Float64Array.from(state);
    this.out = new Float64Array(state.length);
    this.slopes = Array.from({length: 7}, () => new Float64Array(state.length));
    this.slope(this.state, this.slopes[0]);
    this.fastest = this.fastestRate();
    this.dt = 0.1 / this.fastest;
    this.before = 1;
  }

  /** A change of parameters or of the state: slopes and step size are found again. */
  refresh() {
    this.begin(this.state);
  }

  advance(interval) {
    let rest = interval;
    while (rest > 0) {
      const steps = Math.max(1, Math.ceil(rest / this.dt - 1e-9)), trial = rest / steps;
      this.step(trial);
      const error = this.error(trial) + 1e-10;
      if (error <= 1) {
        [this.state, this.out] = [this.out, this.state];
        [this.slopes[0], this.slopes[6]] = [this.slopes[6], this.slopes[0]];
        // two errors steer the step, so it does not see-saw where stability limits it
        this.dt = trial * Math.min(5, 0.9 * error ** -0.14 * this.before ** 0.08);
        this.before = error;
        rest = steps > 1 ? rest - trial : 0;
      } else if (trial * this.fastest > 1e-9) {
        this.dt = trial * Math.max(0.2, 0.9 * error ** -0.2);
      } else {
        this.state.fill(NaN);
        return;
      }
    }
  }

  step(dt) {
    for (let s = 0; s < 6; s++) {
      this.combine(DORMAND_PRINCE[s], dt);
      this.slope(this.out, this.slopes[s + 1]);
    }
  }

  combine(weights, dt) {
    const {state, out, slopes} = this, size = out.length;
    const [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map((s) => dt * (weights[s] || 0));
    const [k0, k1, k2, k3, k4, k5] = slopes;
    if (weights.length < 4)
      for (let i = 0; i < size; i++) out[i] = state[i] + a * k0[i] + b * k1[i] + c * k2[i];
    else
      for (let i = 0; i < size; i++)
        out[i] = state[i] + a * k0[i] + b * k1[i] + c * k2[i] + d * k3[i] + e * k4[i] + f * k5[i];
  }

  /** Root mean square of the step's error in units of the tolerance. */
  error(dt) {
    const {state, out, slopes, tolerance} = this, [a, , c, d, e, f, g] = DORMAND_PRINCE[6];
    const [k0, , k2, k3, k4, k5, k6] = slopes;
    let total = 0;
    for (let i = 0; i < out.length; i++) {
      const apart = a * k0[i] + c * k2[i] + d * k3[i] + e * k4[i] + f * k5[i] + g * k6[i];
      const size = Math.max(Math.abs(state[i]), Math.abs(out[i]));
      const ratio = dt * apart / (tolerance * (1 + size));
      total += ratio * ratio;
    }
    return Math.sqrt(total / out.length);
  }
}

/** FitzHugh and Nagumo's medium: uₜ = Dᵤ Δu + u − u³ − k − v,  vₜ = Dᵥ Δv + u − v, no flux. */
class FitzHughNagumo extends ErrorControlled {
  static fields = ["u", "v"];

  static draw(random, {points}) {
    return Float64Array.from({length: 2 * points[0] * points[1]}, random.normal);
  }

  static paint(field, value) {
    return field === 0 ? [value, null] : [null, value];
  }

  fastestRate() {
    const {diffusion_u, diffusion_v} = this.parameters, [d0, d1] = this.spacing;
    const spread = Math.max(diffusion_u, diffusion_v) * (1 / d0 ** 2 + 1 / d1 ** 2);
    const largest = this.state.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    return 4 * spread + 2 + 3 * largest ** 2;
  }

  slope(y, rate) {
    const {points: [rows, cols], spacing: [d0, d1], cells, parameters: p} = this;
    const ux = p.diffusion_u / d0 ** 2, uy = p.diffusion_u / d1 ** 2;
    const vx = p.diffusion_v / d0 ** 2, vy = p.diffusion_v / d1 ** 2, k = p.k;
    for (let i = 0; i < rows; i++) {
      const here = i * cols, up = Math.max(i - 1, 0) * cols;
      const down = Math.min(i + 1, rows - 1) * cols;
      for (let j = 0; j < cols; j++) {
        const left = here + (j > 0 ? j - 1 : 0), right = here + (j < cols - 1 ? j + 1 : j);
        const at = here + j, other = cells + at, a = y[at], b = y[other];
        rate[at] = ux * (y[up + j] + y[down + j] - 2 * a) + uy * (y[left] + y[right] - 2 * a)
          + a - a * a * a - k - b;
        rate[other] = vx * (y[cells + up + j] + y[cells + down + j] - 2 * b)
          + vy * (y[cells + left] + y[cells + right] - 2 * b) + a - b;
      }
    }
  }
}

/** Gray and Scott: ∂A = δ_A ∇²A − A B² + f (1 − A),  ∂B = δ_B ∇²B + A B² − (f + k) B, periodic. */
class GrayScott extends ErrorControlled {
  static fields = ["A", "B"];
  /** Clusters of Gaussians are unlike anything later: patterns are there after twenty frames. */
  static early = 20;

  /** Where B is put in, A is used up. */
  static paint(field, value) {
    return field === 1 ? [1 - value, value] : [value, null];
  }

  /** Clusters of Gaussians of B where A is used up, as many to an area as in the training data. */
  static draw(random, {points: [rows, cols], spacing: [d0, d1]}) {
    const sides = [rows * d0, cols * d1], free = new Float64Array(rows * cols).fill(1);
    const clusters = Math.max(1, Math.round(random.whole(4, 24) * sides[0] * sides[1] / 4));
    for (let c = 0; c < clusters; c++) {
      const centre = sides.map((side) => random.uniform(0, side));
      for (let bells = random.whole(4, 12); bells > 0; bells--) {
        const place = centre.map((x) => x + 0.12 * random.normal());
        const width = random.uniform(0.03, 0.06), height = random.uniform(0.6, 1);
        const bell = [[rows, d0], [cols, d1]].map(([n, d], axis) => Float64Array.from({length: n}, (_, i) => {
          const side = sides[axis], away = (i + 0.5) * d - place[axis] + side / 2;
          return Math.exp(-0.5 * ((away - side * Math.floor(away / side) - side / 2) / width) ** 2);
        }));
        for (let i = 0; i < rows; i++)
          for (let j = 0; j < cols; j++) free[i * cols + j] *= 1 - height * bell[0][i] * bell[1][j];
      }
    }
    const state = new Float64Array(2 * rows * cols);
    for (let i = 0; i < free.length; i++) {
      state[i] = 1 - 0.5 * (1 - free[i]);
      state[free.length + i] = 0.5 * (1 - free[i]);
    }
    return state;
  }

  fastestRate() {
    const {diffusion_a, diffusion_b, feed, kill} = this.parameters, [d0, d1] = this.spacing;
    return 5.4 * Math.max(diffusion_a, diffusion_b) * (1 / d0 ** 2 + 1 / d1 ** 2) + feed + kill + 1;
  }

  slope(y, rate) {
    const {points: [rows, cols], spacing: [d0, d1], cells, parameters: p} = this;
    const x = 1 / (12 * d0 ** 2), z = 1 / (12 * d1 ** 2), leave = p.feed + p.kill;
    const wrap = (i, n) => ((i % n) + n) % n;
    for (let i = 0; i < rows; i++) {
      const [i2, i1, k1, k2] = [-2, -1, 1, 2].map((o) => wrap(i + o, rows) * cols), here = i * cols;
      for (let j = 0; j < cols; j++) {
        const inner = j > 1 && j < cols - 2;
        const j2 = here + (inner ? j - 2 : wrap(j - 2, cols));
        const j1 = here + (inner ? j - 1 : wrap(j - 1, cols));
        const l1 = here + (inner ? j + 1 : wrap(j + 1, cols));
        const l2 = here + (inner ? j + 2 : wrap(j + 2, cols));
        const at = here + j, a = y[at], b = y[cells + at], eaten = a * b * b;
        rate[at] = p.diffusion_a * (
          x * (16 * (y[i1 + j] + y[k1 + j]) - y[i2 + j] - y[k2 + j] - 30 * a)
          + z * (16 * (y[j1] + y[l1]) - y[j2] - y[l2] - 30 * a)) - eaten + p.feed * (1 - a);
        rate[cells + at] = p.diffusion_b * (
          x * (16 * (y[cells + i1 + j] + y[cells + k1 + j]) - y[cells + i2 + j] - y[cells + k2 + j] - 30 * b)
          + z * (16 * (y[cells + j1] + y[cells + l1]) - y[cells + j2] - y[cells + l2] - 30 * b))
          + eaten - leave * b;
      }
    }
  }
}

/** Share of a wave that its correction may use, from its size here and one cell upwind. */
function limit(upwind, here) {
  const ratio = upwind / (here !== 0 ? here : 1);
  return Math.max(0, Math.min(0.5 * (1 + ratio), 2 * ratio, 2));
}

/** The part of a wave's speed that acts on the left; a straddling fan acts on both sides. */
function leftward(speed, low, high) {
  return low < 0 && high > 0 ? low * (high - speed) / (high - low) : Math.min(speed, 0);
}

/** Shallow water, (h, hu, hv) with open edges or walls: wave propagation by Roe's averages, limited. */
class ShallowWater {
  static fields = ["h"];
  static closed = false;

  /** A depth is painted at rest. */
  static paint(field, value) {
    return [[Math.max(value, 0.05), 0, 0], [null, value, null], [null, null, value]][field];
  }

  /** Water at rest behind round dams, one for each training domain's area, the first in the middle. */
  static draw(random, {points: [rows, cols], spacing: [d0, d1], parameters: p}) {
    const state = new Float64Array(3 * rows * cols).fill(0), sides = [rows * d0, cols * d1];
    state.fill(p.outside, 0, rows * cols);
    const dams = Math.max(1, Math.round(sides[0] * sides[1] / (4 * p.half_width ** 2)));
    for (let dam = 0; dam < dams; dam++) {
      const radius = random.uniform(p.radius[0], p.radius[1]);
      const [x, y] = sides.map((side) => dams > 1 ? random.uniform(0.15, 0.85) * side : side / 2);
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < cols; j++) {
          let share = 0;
          for (let s = 0; s < 16; s++) {
            const a = (i + (s % 4 + 0.5) / 4) * d0 - x, b = (j + ((s >> 2) + 0.5) / 4) * d1 - y;
            share += a * a + b * b < radius * radius ? 1 / 16 : 0;
          }
          const at = i * cols + j;
          state[at] = Math.max(state[at], p.outside + (p.inside - p.outside) * share);
        }
    }
    return state;
  }

  constructor({points, spacing, parameters = {}}) {
    Object.assign(this, {points, spacing, parameters});
    const longest = Math.max(...points) + 4, size = 3 * points[0] * points[1];
    this.line = new Float64Array(3 * longest);
    this.waves = new Float64Array(6 * longest);
    [this.flux, this.left, this.right] = [0, 1, 2].map(() => new Float64Array(3 * longest));
    [this.work, this.lying, this.other] = [0, 1, 2].map(() => new Float64Array(size));
    this.longest = longest;
  }

  begin(state) {
    this.state = Float64Array.from(state);
  }

  refresh() {}

  /** The most cells that any wave crosses in a unit of time. */
  rate() {
    const {state: q, points: [rows, cols], spacing: [d0, d1]} = this, cells = rows * cols;
    const g = this.parameters.gravity;
    let fastest = 0;
    for (let i = 0; i < cells; i++) {
      const c = Math.sqrt(g * q[i]);
      const along = (Math.abs(q[cells + i]) / q[i] + c) / d0;
      const across = (Math.abs(q[2 * cells + i]) / q[i] + c) / d1;
      fastest = Math.max(fastest, along, across);
    }
    return fastest;
  }

  advance(interval) {
    const courant = this.parameters.courant ?? 0.9;
    let rest = interval;
    while (rest > 0) {
      const steps = Math.max(1, Math.ceil(rest * this.rate() / courant - 1e-9)), dt = rest / steps;
      if (!(steps < 10000)) {
        this.state.fill(NaN);
        return;
      }
      this.step(dt);
      rest = steps > 1 ? rest - dt : 0;
    }
  }

  /** The mean of both orders of the sweeps: the same when the axes change places. */
  step(dt) {
    const [rows, cols] = this.points, r0 = dt / this.spacing[0], r1 = dt / this.spacing[1];
    const {state, work, lying, other} = this;
    this.turn(state, lying, rows, cols);
    this.sweep(lying, other, cols, rows, r0);
    this.sweep(other, work, rows, cols, r1);
    this.sweep(state, lying, rows, cols, r1);
    this.sweep(lying, other, cols, rows, r0);
    // `work` stands transposed: both orders end on unlike axes.
    this.turn(work, lying, cols, rows);
    for (let i = 0; i < state.length; i++) state[i] = 0.5 * (lying[i] + other[i]);
  }

  /** Swap the two axes, and the two momenta with them: (3, rows, cols) → (3, cols, rows). */
  turn(q, turned, rows, cols) {
    const cells = rows * cols;
    for (let k = 0; k < 3; k++) {
      const from = k * cells, to = ((3 - k) % 3) * cells;
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < cols; j++) turned[to + j * rows + i] = q[from + i * cols + j];
    }
  }

  /** One step along the last axis, written transposed; the last axis's momentum comes last before. */
  sweep(q, turned, rows, cols, ratio) {
    const {line, longest, left, right, flux} = this, cells = rows * cols, {closed} = this.constructor;
    for (let row = 0; row < rows; row++) {
      for (let k = 0; k < 3; k++) {
        // index 1 of the line is the momentum along it
        const from = ((3 - k) % 3) * cells + row * cols, to = k * longest, sign = closed && k === 1 ? -1 : 1;
        for (let i = 0; i < cols; i++) line[to + i + 2] = q[from + i];
        // Beyond an open edge lies the edge cell again, beyond a wall the mirror image.
        for (let i = 0; i < 2; i++) {
          line[to + 1 - i] = sign * q[from + (closed ? i : 0)];
          line[to + cols + 2 + i] = sign * q[from + cols - 1 - (closed ? i : 0)];
        }
      }
      this.split(cols + 4);
      this.correct(cols + 3, ratio);
      this.fluctuate(cols + 3);
      for (let k = 0; k < 3; k++) {
        const at = k * longest, to = k * cells + row;
        for (let i = 0; i < cols; i++) {
          const change = right[at + i + 1] + left[at + i + 2] + flux[at + i + 2] - flux[at + i + 1];
          turned[to + i * rows] = line[at + i + 2] - ratio * change;
        }
      }
    }
  }

  /** Roe averages u, c, v and wave sizes a, b, d at each interface of the line. */
  split(size) {
    const {line: q, waves: w, longest: n} = this, g = this.parameters.gravity;
    for (let i = 0; i < size - 1; i++) {
      const left = Math.sqrt(q[i]), right = Math.sqrt(q[i + 1]);
      const u = (q[n + i] / left + q[n + i + 1] / right) / (left + right);
      const v = (q[2 * n + i] / left + q[2 * n + i + 1] / right) / (left + right);
      const c = Math.sqrt(0.5 * g * (q[i] + q[i + 1])), h = q[i + 1] - q[i];
      const m = q[n + i + 1] - q[n + i];
      w[i] = u;
      w[n + i] = c;
      w[2 * n + i] = v;
      w[3 * n + i] = ((u + c) * h - m) / (2 * c);
      w[4 * n + i] = q[2 * n + i + 1] - q[2 * n + i] - v * h;
      w[5 * n + i] = (m - (u - c) * h) / (2 * c);
    }
  }

  /** The limited second-order flux at each inner interface; `ratio` is Δt/Δx. */
  correct(size, ratio) {
    const {waves: w, flux, longest: n} = this;
    for (let i = 1; i < size - 1; i++) {
      const u = w[i], c = w[n + i], v = w[2 * n + i], slow = u - c, fast = u + c;
      const a = w[3 * n + i], b = w[4 * n + i], d = w[5 * n + i];
      let at = slow > 0 ? i - 1 : i + 1;
      let upwind = w[3 * n + at] * (1 + slow * (w[at] - w[n + at]) + v * w[2 * n + at]);
      let share = limit(upwind, a * (1 + slow * slow + v * v));
      const first = 0.5 * Math.abs(slow) * (1 - ratio * Math.abs(slow)) * share * a;
      share = limit(w[4 * n + (u > 0 ? i - 1 : i + 1)], b);
      const shear = 0.5 * Math.abs(u) * (1 - ratio * Math.abs(u)) * share * b;
      at = fast > 0 ? i - 1 : i + 1;
      upwind = w[5 * n + at] * (1 + fast * (w[at] + w[n + at]) + v * w[2 * n + at]);
      share = limit(upwind, d * (1 + fast * fast + v * v));
      const last = 0.5 * Math.abs(fast) * (1 - ratio * Math.abs(fast)) * share * d;
      flux[i] = first + last;
      flux[n + i] = first * slow + last * fast;
      flux[2 * n + i] = first * v + shear + last * v;
    }
  }

  /** What each inner interface does to the cell on its left and to the one on its right. */
  fluctuate(size) {
    const {line: q, waves: w, left, right, longest: n} = this, g = this.parameters.gravity;
    for (let i = 1; i < size - 1; i++) {
      const u = w[i], c = w[n + i], v = w[2 * n + i], slow = u - c, fast = u + c;
      const a = w[3 * n + i], b = w[4 * n + i], d = w[5 * n + i];
      let middle = Math.max(q[i] + a, 1e-300);
      let speed = leftward(slow, q[n + i] / q[i] - Math.sqrt(g * q[i]),
        (q[n + i] + a * slow) / middle - Math.sqrt(g * middle));
      const first = speed * a, firstRight = (slow - speed) * a;
      middle = Math.max(q[i + 1] - d, 1e-300);
      speed = leftward(fast, (q[n + i + 1] - d * fast) / middle + Math.sqrt(g * middle),
        q[n + i + 1] / q[i + 1] + Math.sqrt(g * q[i + 1]));
      const last = speed * d, lastRight = (fast - speed) * d;
      left[i] = first + last;
      left[n + i] = first * slow + last * fast;
      left[2 * n + i] = (first + last) * v + Math.min(u, 0) * b;
      right[i] = firstRight + lastRight;
      right[n + i] = firstRight * slow + lastRight * fast;
      right[2 * n + i] = (firstRight + lastRight) * v + Math.max(u, 0) * b;
    }
  }
}

/** The same, with the momenta shown. */
class ShallowWaterMomenta extends ShallowWater {
  static fields = ["h", "hu", "hv"];
}

/** Between walls, from still water in and around ellipses. */
class ShallowWaterDams extends ShallowWaterMomenta {
  static closed = true;

  /** As many ellipses to an area as in the training data; later ones cover earlier ones. */
  static draw(random, {points: [rows, cols], spacing: [d0, d1], parameters: p}) {
    const state = new Float64Array(3 * rows * cols), half = p.half_width, depth = () => random.uniform(...p.depth);
    const area = rows * d0 * cols * d1 / (4 * half ** 2), dams = Math.max(1, Math.round(random.whole(...p.dams) * area));
    const parts = Math.max(1, Math.round(4 * 64 / rows)), sums = new Float64Array(rows * parts * cols * parts).fill(depth());
    for (let dam = 0; dam < dams; dam++) {
      const [a, b] = [0, 1].map(() => half * random.uniform(0.12, 0.4)), [x, y] = [rows * d0, cols * d1].map((side) => random.uniform(0.075, 0.925) * side);
      const turn = random.uniform(0, Math.PI), [c, s] = [Math.cos(turn), Math.sin(turn)], inside = depth();
      for (let i = 0; i < rows * parts; i++)
        for (let j = 0; j < cols * parts; j++) {
          const u = (i + 0.5) * d0 / parts - x, v = (j + 0.5) * d1 / parts - y;
          if (((c * u + s * v) / a) ** 2 + ((c * v - s * u) / b) ** 2 < 1) sums[i * cols * parts + j] = inside;
        }
    }
    for (let i = 0; i < rows * parts; i++)
      for (let j = 0; j < cols * parts; j++)
        state[Math.floor(i / parts) * cols + Math.floor(j / parts)] += sums[i * cols * parts + j] / parts ** 2;
    return state;
  }
}

/** Advection along a periodic line, uₜ + β uₓ = 0: limited slopes, upwind flux, midpoint steps. */
class Advection {
  static fields = ["u"];

  static paint(field, value) {
    return [value];
  }

  /** A few sine waves, now and then folded, and now and then windowed. */
  static draw(random, {points: [, cells], spacing: [, d], parameters: p}) {
    const picks = [0, 1].map(() => random.whole(0, p.modes - 1)), fold = random.uniform() < 0.1, sign = random.uniform() < 0.5 ? -1 : 1;
    const modes = Array.from({length: p.modes}, () => [random.uniform(), 2 * Math.PI * random.uniform()]), place = random.uniform();
    const [left, right] = [0.1 + 0.35 * place, 0.55 + 0.35 * place], windowed = place < p.window;
    return Float64Array.from({length: cells}, (_, i) => {
      const x = (i + 0.5) * d % 1;
      let u = 0;
      modes.forEach(([amplitude, phase], mode) => {
        const times = picks.filter((pick) => pick === mode).length;
        u += amplitude * Math.sin(2 * Math.PI * (mode + 1) * times * x + phase);
      });
      const inside = windowed ? 0.5 * (Math.tanh((x - left) / 0.01) - Math.tanh((x - right) / 0.01)) : 1;
      return sign * inside * (fold ? Math.abs(u) : u);
    });
  }

  constructor({points, spacing, parameters = {}}) {
    Object.assign(this, {points, spacing, parameters});
    [this.middle, this.face] = [0, 1].map(() => new Float64Array(points[1]));
  }

  begin(state) {
    this.state = Float64Array.from(state);
  }

  refresh() {}

  advance(interval) {
    const {beta, courant} = this.parameters, whole = courant ?? 0.4;
    // Things move to the right; waves that go left are moved in a mirror.
    if (beta < 0) this.state.reverse();
    for (let rest = Math.abs(beta) * interval / this.spacing[1]; rest > 1e-9; rest -= whole) this.step(Math.min(rest, whole));
    if (beta < 0) this.state.reverse();
  }

  /** One step of a Courant number of at most one. */
  step(courant) {
    this.stage(this.state, 0.5 * courant, this.middle);
    this.stage(this.middle, courant, this.state);
  }

  /** after = state − courant · (difference of the fluxes of u) */
  stage(u, courant, after) {
    const {face, state} = this, n = u.length;
    for (let i = 0; i < n; i++) {
      const a = u[i] - u[i > 0 ? i - 1 : n - 1], b = u[i < n - 1 ? i + 1 : 0] - u[i], c = 0.5 * (a + b);
      face[i] = u[i] + 0.5 * (Math.max(Math.min(2 * a, 2 * b, c), 0) + Math.min(Math.max(2 * a, 2 * b, c), 0));
    }
    for (let i = n - 1; i >= 0; i--) after[i] = state[i] - courant * (face[i] - face[i > 0 ? i - 1 : n - 1]);
  }
}

/** Every solver by the name of its problem in the package. */
const SOLVERS = {
  "advection": Advection,
  "diffusion-reaction-2d": FitzHughNagumo,
  "gray-scott": GrayScott,
  "shallow-water": ShallowWater,
  "shallow-water-dams": ShallowWaterDams,
  "shallow-water-momenta": ShallowWaterMomenta,
};
