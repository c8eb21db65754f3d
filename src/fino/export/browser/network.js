// The learned step on the processor: in plain JavaScript, or with WebAssembly's stencils.
//
// A program is `fino.export.program` in JSON: value 0 holds the input channels, operation i makes
// value i + 1, and the answer is prior + scale ⊙ last value + shift.  A line is a plane of one row.
//
//   const engine = new PlainEngine(program, [64, 64]);
//   engine.load(frames);          the history: K arrays (c, n0, n1), the oldest first
//   await engine.step();          → the next frame, which becomes the newest of the history
"use strict";

/** Numbers from base64: little-endian float32, or float16 where `half` says so. */
function decodeNumbers(text, half = false) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  if (!half) return Float32Array.from({length: bytes.length / 4}, (_, i) => view.getFloat32(4 * i, true));
  return Float32Array.from({length: bytes.length / 2}, (_, i) => {
    const word = view.getUint16(2 * i, true), sign = word >> 15 ? -1 : 1;
    const exponent = (word >> 10) & 31, fraction = word & 1023;
    if (exponent === 0) return sign * 2 ** -14 * (fraction / 1024);
    return exponent === 31 ? NaN : sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
  });
}

/** The error function to 1.5e-7 (Abramowitz and Stegun 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const value = 1 - tail * Math.exp(-x * x);
  return x < 0 ? -value : value;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const ACTIVATIONS = {
  relu: (x) => (x > 0 ? x : 0),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  silu: (x) => x * sigmoid(x),
  tanh: Math.tanh,
};

/** Where cell i of an axis of n cells lies, beyond its ends as the boundary says; −1 is zero. */
function ghost(i, n, boundary) {
  if (i >= 0 && i < n) return i;
  if (boundary === "periodic") return ((i % n) + n) % n;
  if (boundary === "neumann") return i < 0 ? 0 : n - 1;
  if (boundary === "reflect") return i < 0 ? -i : 2 * (n - 1) - i;
  return -1;
}

/** What the scalars of a step do: scaled, and where they modulate blocks, embedded and applied. */
function modulation(program, scalars) {
  const scaled = program.scalars.map((s, i) => ((s.log ? Math.log(Math.max(scalars[i], 1e-30)) : scalars[i]) - s.mean) / s.std);
  const linear = ([weight, bias], x) => Array.from(bias, (b, row) => {
    let sum = b;
    for (let i = 0; i < x.length; i++) sum += weight[row * x.length + i] * x[i];
    return sum;
  });
  let embedded = scaled;
  for (const layer of program.embedding) embedded = linear(layer, embedded).map(ACTIVATIONS.gelu);
  const films = program.operations.map((operation) => {
    if (!operation.film) return null;
    const {weight, bias, raw} = operation.film, out = linear([weight, bias], embedded);
    const f = (out.length - 1) / 3;
    return {
      scale: out.slice(0, f).map((x) => 1 + x), shift: out.slice(f, 2 * f),
      gate: out.slice(2 * f, 3 * f), dt: raw === null ? 1 : softplus(raw + out[3 * f]),
    };
  });
  return {scaled, films};
}

/** The level and channels of every value, and the operation that reads it last. */
function layout(program) {
  const values = [{level: 0, channels: program.channels.length, last: -1}];
  program.operations.forEach((operation, i) => {
    for (const source of operation.sources) values[source].last = i;
    const {level, channels} = values[operation.sources[0]], {kind} = operation;
    const deeper = {pool: 1, upsample: -1, fold: Math.log2(operation.patch), unfold: -Math.log2(operation.patch)};
    const cells = kind.endsWith("fold") ? program.halved.reduce((n, h) => (h ? n * operation.patch : n), 1) : 1;
    values.push({
      level: level + (deeper[kind] ?? 0),
      channels: kind === "stencil" ? operation.shape[0] : kind === "unfold" ? channels / cells : channels * cells,
      last: Infinity,
    });
  });
  return values;
}

class PlainEngine {
  constructor(program, points) {
    Object.assign(this, {program, points, name: "JavaScript"});
    this.cells = points[0] * points[1];
    this.values = layout(program);
    this.prepare();
    this.packed = program.operations.map((operation) => this.pack(operation));
    this.free = new Map();
    this.mask = null;
    this.setScalars(program.scalars.map((s) => s.start));
  }

  prepare() {}

  close() {}

  setScalars(values) {
    this.scalars = values;
    this.modulation = modulation(this.program, values);
  }

  setMask(mask) {
    this.mask = mask;
  }

  load(frames) {
    this.frames = frames.map((frame) => Float64Array.from(frame));
  }

  push(frame) {
    this.frames = [...this.frames.slice(1), Float64Array.from(frame)];
  }

  async step() {
    const frames = this.extended(), values = [this.inputs(frames)];
    this.program.operations.forEach((operation, i) => {
      const sources = operation.sources.map((at) => values[at]);
      values.push(this[operation.kind](operation, sources, i));
      operation.sources.forEach((at) => {
        if (this.values[at].last === i && values[at]) {
          this.release(values[at]);
          values[at] = null;
        }
      });
    });
    const frame = this.answer(frames, values[values.length - 1]);
    values.forEach((value) => value && this.release(value));
    this.frames = [...this.frames.slice(1), frame];
    return Float32Array.from(frame);
  }

  size(level) {
    return this.points.map((n, axis) => n >> (this.program.halved[axis] ? level : 0));
  }

  /** How many numbers the channels of a cell take. */
  spaced(channels) {
    return channels;
  }

  /** Room for a value; `numbers` are those in it. */
  take(size) {
    const kept = this.free.get(size);
    return kept && kept.length ? kept.pop() : this.place(size);
  }

  release(value) {
    if (!this.free.has(value.length)) this.free.set(value.length, []);
    this.free.get(value.length).push(value);
  }

  place(size) {
    return new Float64Array(size);
  }

  numbers(value) {
    return value;
  }

  /** Value 0 with the channels of a cell side by side: (n0, n1, channels). */
  inputs(frames) {
    const {channels, points: grid, offset} = this.program, count = this.spaced(channels.length);
    const [rows, cols] = this.points, value = this.take(count * this.cells), out = this.numbers(value);
    if (count > channels.length) out.fill(0);
    channels.forEach(({kind, index, mean, std}, c) => {
      if (kind === "history") {
        const frame = frames[index[0]], from = index[1] * this.cells;
        for (let i = 0; i < this.cells; i++) out[i * count + c] = (frame[from + i] - mean) / std;
        return;
      }
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < cols; j++) {
          const place = [i, j][index[0]], n = this.points[index[0]];
          let x = 0;
          if (kind === "edge") x = place === (index[1] ? n - 1 : 0) ? 1 : 0;
          else if (kind === "coordinate") x = 2 * (place + offset[index[0]]) / grid[index[0]] - 1;
          else if (kind === "scalar") x = this.modulation.scaled[index[0]];
          else if (kind === "mask") x = this.mask ? this.mask[i * cols + j] : 1;
          out[(i * cols + j) * count + c] = x;
        }
    });
    return value;
  }

  /** The weights of an operation in the order in which they are used. */
  pack(operation) {
    if (!operation.weight) return null;
    const [outputs, inputs] = operation.shape, found = {
      weight: this.reorder(operation.weight, operation.shape), bias: this.whole(operation.bias, outputs),
    };
    if (operation.kind === "euler") {
      found.gate = operation.gate && this.reorder(operation.gate, [outputs, outputs]);
      found.gateBias = this.whole(operation.gateBias, outputs);
      found.fuse = this.reorder(operation.fuse, [inputs, outputs]);
      found.none = this.whole(null, inputs);
    }
    return found;
  }

  /** Four outputs together, then inputs, then taps. */
  reorder(weight, [outputs, inputs, ...taps]) {
    const area = taps.reduce((a, b) => a * b, 1), wide = this.spaced(inputs);
    const out = new Float64Array(Math.ceil(outputs / 4) * 4 * wide * area);
    for (let o = 0; o < outputs; o++)
      for (let c = 0; c < inputs; c++)
        for (let t = 0; t < area; t++)
          out[(((o >> 2) * area + t) * wide + c) * 4 + (o & 3)] = weight[(o * inputs + c) * area + t];
    return out;
  }

  /** A bias for whole vectors of four. */
  whole(bias, outputs) {
    return Float64Array.from({length: 4 * Math.ceil(outputs / 4)}, (_, i) => bias?.[i] ?? 0);
  }

  /** y = w ∗ u + b: four channels of two neighbouring cells at a time, which stay in registers. */
  convolve(u, level, inputs, outputs, taps, dilation, weight, bias) {
    const [rows, cols] = this.size(level), [t0, t1] = taps, y = this.take(rows * cols * outputs);
    const {boundary} = this.program, [r0, r1] = [t0 >> 1, t1 >> 1], area = t0 * t1;
    // One cell of zeros stands for all that lies beyond a dirichlet edge.
    const offsets = new Int32Array(2 * area), blocks = (outputs + 3) >> 2;
    const column = Array.from({length: t1}, (_, q) => Int32Array.from({length: cols + 1}, (_, j) => ghost(Math.min(j, cols - 1) + (q - r1) * dilation, cols, boundary[1])));
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j += 2) {
        for (let p = 0, t = 0; p < t0; p++) {
          const row = ghost(i + (p - r0) * dilation, rows, boundary[0]);
          for (let q = 0; q < t1; q++, t++) {
            const a = column[q][j], b = column[q][j + 1];
            offsets[2 * t] = row < 0 || a < 0 ? -1 : (row * cols + a) * inputs;
            offsets[2 * t + 1] = row < 0 || b < 0 ? -1 : (row * cols + b) * inputs;
          }
        }
        for (let block = 0; block < blocks; block++) {
          const o = 4 * block, left = outputs - o;
          let a0 = bias[o], a1 = bias[o + 1], a2 = bias[o + 2], a3 = bias[o + 3];
          let b0 = a0, b1 = a1, b2 = a2, b3 = a3;
          let w = block * area * inputs * 4;
          for (let t = 0; t < area; t++) {
            const from = offsets[2 * t], next = offsets[2 * t + 1];
            if (from < 0 || next < 0) {
              for (let c = 0; c < inputs; c++, w += 4) {
                const x = from < 0 ? 0 : u[from + c], z = next < 0 ? 0 : u[next + c];
                a0 += weight[w] * x; a1 += weight[w + 1] * x; a2 += weight[w + 2] * x; a3 += weight[w + 3] * x;
                b0 += weight[w] * z; b1 += weight[w + 1] * z; b2 += weight[w + 2] * z; b3 += weight[w + 3] * z;
              }
              continue;
            }
            for (let c = 0; c < inputs; c++, w += 4) {
              const x = u[from + c], z = u[next + c];
              const w0 = weight[w], w1 = weight[w + 1], w2 = weight[w + 2], w3 = weight[w + 3];
              a0 += w0 * x; a1 += w1 * x; a2 += w2 * x; a3 += w3 * x;
              b0 += w0 * z; b1 += w1 * z; b2 += w2 * z; b3 += w3 * z;
            }
          }
          const at = (i * cols + j) * outputs + o;
          y[at] = a0;
          if (left > 1) y[at + 1] = a1;
          if (left > 2) y[at + 2] = a2;
          if (left > 3) y[at + 3] = a3;
          if (j + 1 < cols) {
            y[at + outputs] = b0;
            if (left > 1) y[at + outputs + 1] = b1;
            if (left > 2) y[at + outputs + 2] = b2;
            if (left > 3) y[at + outputs + 3] = b3;
          }
        }
      }
    }
    return y;
  }

  stencil(operation, [u], i) {
    const [outputs, inputs, ...taps] = operation.shape, {weight, bias} = this.packed[i];
    const {level} = this.values[operation.sources[0]];
    const value = this.convolve(u, level, inputs, outputs, taps, operation.dilation, weight, bias);
    if (operation.activation) {
      const apply = ACTIVATIONS[operation.activation], y = this.numbers(value);
      for (let k = 0; k < y.length; k++) y[k] = apply(y[k]);
    }
    return value;
  }

  euler(operation, [u], i) {
    const [features, channels, ...taps] = operation.shape, packed = this.packed[i];
    const {level} = this.values[operation.sources[0]], film = this.modulation.films[i];
    const stencil = this.convolve(u, level, channels, features, taps, 1, packed.weight, packed.bias);
    if (film) this.modulate(this.numbers(stencil), features, (x, c) => film.scale[c] * x + film.shift[c]);
    if (packed.gate) {
      const gate = this.convolve(stencil, level, features, features, [1, 1], 1, packed.gate, packed.gateBias);
      if (film) this.modulate(this.numbers(gate), features, (x, c) => x + film.gate[c]);
      const s = this.numbers(stencil), g = this.numbers(gate);
      for (let k = 0; k < s.length; k++) s[k] *= sigmoid(g[k]);
      this.release(gate);
    }
    const value = this.convolve(stencil, level, features, channels, [1, 1], 1, packed.fuse, packed.none);
    this.release(stencil);
    const dt = film ? film.dt : 1, before = this.numbers(u), y = this.numbers(value);
    for (let k = 0; k < y.length; k++) y[k] = before[k] + dt * y[k];
    return value;
  }

  /** Change every channel of every cell. */
  modulate(numbers, channels, change) {
    const wide = this.spaced(channels);
    for (let k = 0; k < numbers.length; k += wide)
      for (let c = 0; c < channels; c++) numbers[k + c] = change(numbers[k + c], c);
  }

  add(operation, sources) {
    const value = this.take(sources[0].length), [a, b, y] = [...sources, value].map((v) => this.numbers(v));
    for (let k = 0; k < y.length; k++) y[k] = a[k] + b[k];
    return value;
  }

  multiply(operation, sources) {
    const value = this.take(sources[0].length), [a, b, y] = [...sources, value].map((v) => this.numbers(v));
    for (let k = 0; k < y.length; k++) y[k] = (operation.gate ? sigmoid(a[k]) : a[k]) * b[k];
    return value;
  }

  pool(operation, [source]) {
    const {level, channels} = this.values[operation.sources[0]], c = this.spaced(channels), [h0, h1] = this.program.halved;
    const [, cols] = this.size(level), [rows, half] = this.size(level + 1), value = this.take(rows * half * c);
    const u = this.numbers(source), y = this.numbers(value), down = h0 ? cols * c : 0, right = h1 ? c : 0;
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < half; j++) {
        const from = ((h0 ? 2 * i : i) * cols + (h1 ? 2 * j : j)) * c, to = (i * half + j) * c;
        for (let k = 0; k < c; k++) {
          const at = from + k;
          y[to + k] = 0.25 * (u[at] + u[at + right] + u[at + down] + u[at + down + right]);
        }
      }
    return value;
  }

  upsample(operation, [source]) {
    const {level, channels} = this.values[operation.sources[0]], c = this.spaced(channels), [h0, h1] = this.program.halved;
    const [rows, cols] = this.size(level - 1), [coarse0, coarse1] = this.size(level), value = this.take(rows * cols * c);
    const u = this.numbers(source), y = this.numbers(value), smooth = operation.mode === "linear";
    const {boundary} = this.program;
    // The cell itself and its neighbour on the nearer side, with a weight of ¼ where it counts.
    const near = (i, n, halved, name) => {
      const own = halved ? i >> 1 : i;
      const other = halved && smooth ? ghost(own + (i & 1 ? 1 : -1), n, name) : own;
      return [own, Math.max(other, 0), halved && smooth ? 0.75 : 1, other < 0 || !(halved && smooth) ? 0 : 0.25];
    };
    for (let i = 0; i < rows; i++) {
      const [i0, i1, a0, a1] = near(i, coarse0, h0, boundary[0]);
      for (let j = 0; j < cols; j++) {
        const [j0, j1, b0, b1] = near(j, coarse1, h1, boundary[1]);
        const to = (i * cols + j) * c, own = (i0 * coarse1 + j0) * c;
        if (!smooth)
          for (let k = 0; k < c; k++) y[to + k] = u[own + k];
        else
          for (let k = 0; k < c; k++)
            y[to + k] = a0 * (b0 * u[own + k] + b1 * u[(i0 * coarse1 + j1) * c + k])
              + a1 * (b0 * u[(i1 * coarse1 + j0) * c + k] + b1 * u[(i1 * coarse1 + j1) * c + k]);
      }
    }
    return value;
  }

  /** Visit each number of a patch: where it lies among the fine cells, and where in the wide one. */
  eachOfPatches(level, fields, patch, visit) {
    const [h0, h1] = this.program.halved, p0 = h0 ? patch : 1, p1 = h1 ? patch : 1, inside = p0 * p1;
    const [rows, cols] = this.size(level), fine = this.spaced(fields), wide = this.spaced(fields * inside);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const own = (Math.floor(i / p0) * (cols / p1) + Math.floor(j / p1)) * wide, part = (i % p0) * p1 + (j % p1);
        for (let k = 0; k < fields; k++) visit((i * cols + j) * fine + k, own + k * inside + part);
      }
    return (rows / p0) * (cols / p1) * wide;
  }

  fold(operation, [source]) {
    const {level, channels} = this.values[operation.sources[0]], u = this.numbers(source);
    const length = this.eachOfPatches(level, channels, operation.patch, () => {});
    const value = this.take(length), y = this.numbers(value).fill(0);
    this.eachOfPatches(level, channels, operation.patch, (fine, wide) => { y[wide] = u[fine]; });
    return value;
  }

  unfold(operation, [source], i) {
    const {level, channels} = this.values[i + 1], u = this.numbers(source), [rows, cols] = this.size(level);
    const value = this.take(rows * cols * this.spaced(channels)), y = this.numbers(value).fill(0);
    this.eachOfPatches(level, channels, operation.patch, (fine, wide) => { y[fine] = u[wide]; });
    return value;
  }

  /** prior + scale ⊙ last value + shift, zero outside of the mask: (c, n0, n1). */
  answer(frames, last) {
    const {fields, scale, shift} = this.program, count = fields.length, {cells, mask} = this;
    const frame = this.predict(frames), residual = this.numbers(last), wide = this.spaced(count);
    for (let c = 0; c < count; c++)
      for (let i = 0; i < cells; i++) {
        const at = c * cells + i, value = frame[at] + scale[c] * residual[i * wide + c] + shift[c];
        frame[at] = mask ? value * mask[i] : value;
      }
    return frame;
  }

  /** What the linear prior says. */
  predict(frames) {
    const {fields, prior, priorWeight, boundary} = this.program, count = fields.length;
    const {cells, points: [rows, cols]} = this, out = new Float64Array(count * cells);
    const newest = frames[frames.length - 1];
    if (prior === "increment") out.set(newest);
    if (prior === "linear")
      frames.forEach((frame, k) => {
        for (let i = 0; i < out.length; i++) out[i] += priorWeight[k * count + Math.floor(i / cells)] * frame[i];
      });
    if (prior === "stencil") {
      const [t0, t1] = this.program.priorTaps;
      for (let o = 0; o < count; o++)
        for (let c = 0; c < count; c++)
          for (let p = 0; p < t0; p++)
            for (let q = 0; q < t1; q++) {
              const w = priorWeight[((o * count + c) * t0 + p) * t1 + q];
              for (let i = 0; i < rows; i++) {
                const row = ghost(i + p - (t0 >> 1), rows, boundary[0]);
                if (row < 0) continue;
                for (let j = 0; j < cols; j++) {
                  const column = ghost(j + q - (t1 >> 1), cols, boundary[1]);
                  if (column >= 0) out[o * cells + i * cols + j] += w * newest[c * cells + row * cols + column];
                }
              }
            }
    }
    return out;
  }

  /** The history with what lies at the walls of the mask in the cells outside of it. */
  extended() {
    const {mask} = this, {walls, outside} = this.program;
    if (!mask || !walls) return this.frames;
    return this.frames.map((frame) => extend(frame, mask, this.points, this.program.boundary, walls, outside, this.program.halved));
  }
}

/** The same with the stencils in WebAssembly, where there is one with vectors: float32 throughout. */
class FastEngine extends PlainEngine {
  prepare() {
    this.name = "WebAssembly";
    const features = this.program.operations.filter((o) => o.shape).map((o) => o.shape[0]);
    const widths = [...this.values.map((value) => value.channels), ...features].map((n) => this.spaced(n));
    this.kernels = assembleKernels([...new Set(widths)]);
    this.end = 64;
    this.taps = new Map();
  }

  spaced(channels) {
    return 4 * Math.ceil(channels / 4);
  }

  place(size) {
    const {memory} = this.kernels, at = this.end;
    this.end += 16 * Math.ceil(size / 4);
    const lacking = this.end - memory.buffer.byteLength;
    if (lacking > 0) memory.grow(Math.ceil(lacking / 65536));
    return {at, length: size};
  }

  /** A view that holds until the memory grows: it is made where it is used. */
  numbers({at, length}) {
    return new Float32Array(this.kernels.memory.buffer, at, length);
  }

  keep(numbers) {
    const place = this.place(numbers.length);
    this.numbers(place).set(numbers);
    return place;
  }

  reorder(weight, shape) {
    return this.keep(super.reorder(weight, shape));
  }

  whole(bias, outputs) {
    return this.keep(super.whole(bias, outputs));
  }

  convolve(u, level, inputs, outputs, taps, dilation, weight, bias) {
    const [rows, cols] = this.size(level), wide = this.spaced(inputs), [r0, r1] = taps.map((t) => (t >> 1) * dilation);
    const out = this.take(rows * cols * this.spaced(outputs)), width = cols + 2 * r1;
    const from = r0 || r1 ? this.pad(u, rows, cols, r0, r1, wide) : u, {at, length} = this.offsets(taps, dilation, width, wide);
    const call = this.kernels[`stencil${wide}`];
    call(from.at, 4 * width * wide, out.at, 4 * this.spaced(outputs), weight.at, bias.at, at, length, rows, cols, Math.ceil(outputs / 4));
    if (from !== u) this.release(from);
    return out;
  }

  /** How many bytes each tap lies behind the first one. */
  offsets([t0, t1], dilation, width, wide) {
    const key = [t0, t1, dilation, width, wide].join();
    if (!this.taps.has(key)) {
      const place = this.place(t0 * t1), found = [];
      for (let p = 0; p < t0; p++) for (let q = 0; q < t1; q++) found.push(4 * dilation * (p * width + q) * wide);
      new Int32Array(this.kernels.memory.buffer, place.at, found.length).set(found);
      this.taps.set(key, place);
    }
    return this.taps.get(key);
  }

  /** The field with its ghost cells: (rows + 2 r0, cols + 2 r1, channels). */
  pad(u, rows, cols, r0, r1, wide) {
    const width = cols + 2 * r1, value = this.take((rows + 2 * r0) * width * wide), {boundary} = this.program;
    const from = this.numbers(u), to = this.numbers(value);
    for (let i = -r0; i < rows + r0; i++) {
      const row = ghost(i, rows, boundary[0]), start = (i + r0) * width * wide;
      if (row < 0) {
        to.fill(0, start, start + width * wide);
        continue;
      }
      to.set(from.subarray(row * cols * wide, (row + 1) * cols * wide), start + r1 * wide);
      for (let j = 1; j <= r1; j++)
        for (const [beyond, at] of [[-j, start + (r1 - j) * wide], [cols - 1 + j, start + (r1 + cols - 1 + j) * wide]]) {
          const column = ghost(beyond, cols, boundary[1]);
          if (column < 0) to.fill(0, at, at + wide);
          else to.copyWithin(at, start + (r1 + column) * wide, start + (r1 + column + 1) * wide);
        }
    }
    return value;
  }
}

/** Zero outside of a dirichlet mask; the mean of the neighbours, twice, outside of a neumann one. */
function extend(frame, mask, [rows, cols], boundary, walls, outside, axes) {
  const cells = rows * cols, fields = frame.length / cells;
  let out = Float64Array.from(frame, (x, i) => (mask[i % cells] ? x : walls === "dirichlet" ? 0 : outside[Math.floor(i / cells)]));
  if (walls === "dirichlet") return out;
  let inside = Uint8Array.from(mask, (m) => (m > 0 ? 1 : 0));
  const sides = [[-1, 0], [1, 0], [0, -1], [0, 1]].filter(([a]) => axes[0] || !a);
  for (let round = 0; round < 2; round++) {
    const filled = Float64Array.from(out), grown = Uint8Array.from(inside);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        if (inside[i * cols + j]) continue;
        const near = sides.map(([a, b]) => [ghost(i + a, rows, boundary[0]), ghost(j + b, cols, boundary[1])])
          .filter(([a, b]) => a >= 0 && b >= 0).map(([a, b]) => a * cols + b).filter((at) => inside[at]);
        if (!near.length) continue;
        grown[i * cols + j] = 1;
        for (let c = 0; c < fields; c++)
          filled[c * cells + i * cols + j] = near.reduce((sum, at) => sum + out[c * cells + at], 0) / near.length;
      }
    [out, inside] = [filled, grown];
  }
  return out;
}
