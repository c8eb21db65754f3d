// What happens on the page, without the page: the learned step beside the classical solvers.
//
// A start, and every stroke of the brush, is a state of the classical solver.  A model that looks
// at K frames is shown the solver's first K − 1 steps from there; then each goes on alone.  The
// reference is the solver on a finer grid, that of the training data where they are known, or
// the solver on the same grid.  Without a solver the page holds frames of the data to start from.
"use strict";

/** The weights of a program, from text to numbers, in place. */
function decodeProgram(program) {
  const numbers = (text) => (typeof text === "string" ? decodeNumbers(text) : text);
  for (const operation of program.operations) {
    for (const name of ["weight", "bias", "gateBias", "fuse"]) operation[name] = numbers(operation[name]);
    if (operation.kind === "euler") operation.gate = numbers(operation.gate);
    if (operation.film) for (const name of ["weight", "bias"]) operation.film[name] = numbers(operation.film[name]);
  }
  program.embedding = program.embedding.map((layer) => layer.map(numbers));
  program.priorWeight = numbers(program.priorWeight);
  return program;
}

/** Frames in one text of float16: (count, c, n0, n1). */
function decodeFrames({frames, count}) {
  const all = decodeNumbers(frames, true), size = all.length / count;
  return Array.from({length: count}, (_, i) => all.slice(i * size, (i + 1) * size));
}

/** The error of an engine against torch's stored answers, relative to the spread of each field. */
async function checkEngine(facts, Engine) {
  const {points, scalars, mask, answers} = facts.check, engine = new Engine(facts.program, points);
  const expected = decodeNumbers(answers.values), fields = facts.program.fields.length, found = {};
  const cells = points[0] * points[1], size = fields * cells;
  engine.setScalars(scalars);
  if (mask) engine.setMask(decodeNumbers(mask, true));
  engine.load(decodeFrames(facts.check.history));
  for (let step = 1, kept = 0; step <= Math.max(...answers.steps); step++) {
    const frame = await engine.step();
    if (!answers.steps.includes(step)) continue;
    let worst = 0;
    for (let c = 0; c < fields; c++) {
      const truth = expected.subarray(kept * size + c * cells, kept * size + (c + 1) * cells);
      let low = Infinity, high = -Infinity, apart = 0;
      for (let i = 0; i < cells; i++) {
        low = Math.min(low, truth[i]);
        high = Math.max(high, truth[i]);
        const away = Math.abs(frame[c * cells + i] - truth[i]);
        apart = Math.max(apart, Number.isNaN(away) ? Infinity : away);
      }
      worst = Math.max(worst, apart / Math.max(high - low, 1e-12));
    }
    found[step] = worst;
    kept += 1;
  }
  engine.close();
  return {steps: Math.max(...answers.steps), error: Math.max(...Object.values(found))};
}

/** Root mean square of a − b relative to that of b, in one field. */
function relativeError(a, b, field, cells) {
  let apart = 0, size = 0;
  for (let i = field * cells; i < (field + 1) * cells; i++) {
    apart += (a[i] - b[i]) ** 2;
    size += b[i] ** 2;
  }
  return Math.sqrt(apart / Math.max(size, 1e-30));
}

/** One of r0 × r1 cells, or their mean: (s, r0·n0, r1·n1) → (s, n0, n1). */
function thin(state, [rows, cols], [r0, r1], averaged) {
  const parts = state.length / (rows * cols * r0 * r1), out = new Float64Array(parts * rows * cols);
  const [m0, m1] = averaged ? [r0, r1] : [1, 1];
  for (let s = 0; s < parts; s++)
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        let sum = 0;
        for (let p = 0; p < m0; p++)
          for (let q = 0; q < m1; q++) sum += state[((s * rows + i) * r0 + p) * cols * r1 + j * r1 + q];
        out[(s * rows + i) * cols + j] = sum / (m0 * m1);
      }
  return out;
}

/** How much of a dab a cell gets: all near its middle, nothing at its rim. */
function coverage(distance, radius) {
  const share = clamp(2 * (1 - distance / radius), 0, 1);
  return share * share * (3 - 2 * share);
}

class World {
  constructor(facts, makeEngine) {
    Object.assign(this, {facts, makeEngine, program: facts.program, history: facts.program.history});
    this.Solver = facts.solver ? SOLVERS[facts.solver.name] : null;
    this.settings = {
      seed: 1, points: facts.points.slice(), reference: facts.solver?.refine > 1 ? "finer" : "same",
      scalars: this.program.scalars.map((s) => s.start),
    };
  }

  get refine() {
    return this.settings.reference === "finer" ? this.facts.solver?.refine ?? 1 : 1;
  }

  /** A factor along each axis that there is; a line is a plane of one row. */
  finer(refine) {
    return this.program.halved.map((there) => (there ? refine : 1));
  }

  get cells() {
    return this.settings.points[0] * this.settings.points[1];
  }

  /** Whether the model still is given frames, and has none of its own. */
  get isGiven() {
    return this.given.length < this.history;
  }

  /** Frames that the solver alone computes, before the model begins. */
  get early() {
    return this.Solver?.early ?? 0;
  }

  /** The time at which the model begins. */
  get begins() {
    return this.facts.start + this.early * this.program.dt;
  }

  get time() {
    return this.begins + this.step * this.program.dt;
  }

  /** Sizes that the learned step runs on: at least the smallest, multiples of its stride. */
  fit(n, axis) {
    const {stride, smallest, points, fixed} = this.program;
    if (fixed) return points[axis];
    const most = this.program.dims === 1 ? 2048 : 512;
    return clamp(Math.round(n / stride[axis]) * stride[axis], smallest[axis], most - most % stride[axis]);
  }

  /** A new start from the seed, with the settings as they are. */
  async begin() {
    const {points, seed, scalars} = this.settings;
    if (this.engine?.points.join() !== points.join()) {
      this.engine?.close();
      this.engine = null;
      this.engine = await this.makeEngine(points);
    }
    Object.assign(this, {step: 0, dabs: [], errors: [], times: {}, mask: null});
    this.engine.setScalars(scalars);
    this.engine.setMask(this.program.walls ? (this.mask = new Float32Array(this.cells).fill(1)) : null);
    if (!this.Solver) {
      this.given = this.storedStart();
      this.engine.load(this.given);
      this.learned = this.given[this.given.length - 1];
      return;
    }
    this.reference = this.solver(this.refine);
    this.own = this.refine > 1 ? this.solver(1) : this.reference;
    const {points: fine, spacing, parameters} = this.reference;
    this.reference.begin(this.Solver.draw(randomNumbers(seed), {points: fine, spacing, parameters}));
    for (let frame = 0; frame < this.early; frame++) this.reference.advance(this.program.dt);
    this.give();
  }

  solver(refine) {
    const {points, scalars} = this.settings, {spacing, parameters} = this.facts.solver;
    const named = Object.fromEntries(this.program.scalars.map((s, i) => [s.name, scalars[i]]));
    return new this.Solver({
      points: points.map((n, axis) => n * this.finer(refine)[axis]),
      spacing: spacing.map((d, axis) => d / this.finer(refine)[axis]),
      parameters: {...parameters, ...named},
    });
  }

  /** Frames of the data, continued by mirror images or cut to the size of the domain. */
  storedStart() {
    const {points, seed} = this.settings, starts = this.facts.starts, own = this.facts.points;
    const chosen = starts[(seed - 1) % starts.length], fields = this.program.fields.length;
    const mirror = (i, n) => (this.program.boundary.includes("periodic") ? i % n : Math.floor(i / n) % 2 ? n - 1 - i % n : i % n);
    return decodeFrames(chosen).map((frame) => {
      const out = new Float32Array(fields * this.cells);
      for (let c = 0; c < fields; c++)
        for (let i = 0; i < points[0]; i++)
          for (let j = 0; j < points[1]; j++)
            out[(c * points[0] + i) * points[1] + j] = frame[(c * own[0] + mirror(i, own[0])) * own[1] + mirror(j, own[1])];
      return out;
    });
  }

  /** The state of the reference on the page's grid, as the training data were kept. */
  coarse() {
    return thin(this.reference.state, this.settings.points, this.finer(this.refine), this.facts.solver.averaged);
  }

  /** The fields of the reference on the page's grid: (c, n0, n1). */
  truthNow() {
    const fields = this.Solver.fields.length, thinned = this.coarse();
    return Float32Array.from(thinned.subarray(0, fields * this.cells));
  }

  /** Begin again from the reference's state: it is the first frame that the model is given. */
  give() {
    this.truth = this.learned = this.classical = this.truthNow();
    this.given = [this.truth];
    this.errors = [];
    this.goAlone();
  }

  /** With all the frames that it looks at, the model goes on alone, and so does the coarse solver. */
  goAlone() {
    if (this.isGiven) return;
    this.engine.load(this.given);
    if (this.own !== this.reference) this.own.begin(this.coarse());
  }

  /** One time step of everything. */
  async advance() {
    const {dt} = this.program;
    this.step += 1;
    if (this.Solver) {
      this.timed("reference", () => this.reference.advance(dt));
      this.truth = this.truthNow();
      if (this.isGiven) {
        this.given.push(this.truth);
        this.learned = this.classical = this.truth;
        this.goAlone();
        return;
      }
    }
    const before = performance.now();
    this.previous = this.learned;
    this.learned = await this.engine.step();
    this.count("learned", performance.now() - before);
    if (!this.Solver) return;
    if (this.own === this.reference) this.classical = this.truth;
    else {
      this.timed("classical", () => this.own.advance(dt));
      this.classical = Float32Array.from(this.own.state.subarray(0, this.truth.length));
    }
    this.errors.push({step: this.step, ...this.measure()});
    if (this.errors.length > 2000) this.errors = this.errors.filter((_, i) => i % 2);
  }

  /** The errors of now, one for each field. */
  measure() {
    const fields = this.program.fields.map((_, field) => field);
    const each = (a, b) => fields.map((field) => relativeError(a, b, field, this.cells));
    const isFiner = this.own !== this.reference;
    return {
      learned: each(this.learned, this.truth), classical: isFiner ? each(this.classical, this.truth) : null,
    };
  }

  timed(name, work) {
    const before = performance.now();
    work();
    this.count(name, performance.now() - before);
  }

  /** Milliseconds a step, as a running mean. */
  count(name, milliseconds) {
    const old = this.times[name];
    this.times[name] = old === undefined ? milliseconds : 0.9 * old + 0.1 * milliseconds;
  }

  setScalar(place, value) {
    this.settings.scalars[place] = value;
    this.engine.setScalars(this.settings.scalars);
    for (const solver of this.Solver ? new Set([this.reference, this.own]) : []) {
      solver.parameters[this.program.scalars[place].name] = value;
      if (solver.state) solver.refresh();
    }
  }

  /** A dab of the brush at a cell: {x, y, radius, tool, field, value}, lengths in cells. */
  dab(stroke) {
    this.dabs.push({...stroke, step: this.step});
    if (stroke.tool === "wall" || stroke.tool === "open") this.build(stroke);
    else if (!this.Solver) {
      const targets = this.program.fields.map((_, c) => (c === stroke.field ? stroke.value : null));
      this.given = this.engine.frames.map((frame) => this.blend(Float32Array.from(frame), targets, stroke, 1));
      this.engine.load(this.given);
      this.learned = this.given[this.given.length - 1];
    } else {
      const targets = this.Solver.paint(stroke.field, stroke.value);
      this.blend(this.reference.state, targets, stroke, this.refine);
      this.reference.refresh();
      if (this.history > 1) this.give();
      else this.dabAlone(targets, stroke);
    }
  }

  /** A model that looks at one frame goes on from its own frame with the dab on it. */
  dabAlone(targets, stroke) {
    this.truth = this.truthNow();
    this.learned = this.blend(Float32Array.from(this.learned), targets, stroke, 1);
    this.given = [this.learned];
    this.engine.load(this.given);
    if (this.own !== this.reference) {
      this.blend(this.own.state, targets, stroke, 1);
      this.own.refresh();
    }
    this.classical = Float32Array.from(this.own === this.reference ? this.truth : this.own.state.subarray(0, this.truth.length));
  }

  /** Move fields on a grid `refine` times finer towards their targets under the brush; null leaves one alone. */
  blend(state, targets, {x, y, radius}, refine) {
    const factors = this.finer(refine), [rows, cols] = this.settings.points.map((n, axis) => n * factors[axis]);
    const away = (i, axis, middle) => {
      const d = Math.abs((i + 0.5) / factors[axis] - middle), n = this.settings.points[axis];
      return this.program.boundary[axis] === "periodic" ? Math.min(d, n - d) : d;
    };
    const flat = this.program.dims === 1;
    for (let i = 0; i < rows; i++) {
      const a = flat ? 0 : away(i, 0, x);
      if (a >= radius) continue;
      for (let j = 0; j < cols; j++) {
        const share = coverage(Math.hypot(a, away(j, 1, y)), radius);
        if (!share) continue;
        targets.forEach((target, c) => {
          const at = (c * rows + i) * cols + j;
          if (target !== null && at < state.length) state[at] += share * (target - state[at]);
        });
      }
    }
    return state;
  }

  /** Obstacles: cells that are not part of the domain, or are again. */
  build({x, y, radius, tool}) {
    const [rows, cols] = this.settings.points, inside = tool === "open" ? 1 : 0;
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++)
        if (Math.hypot(this.program.dims === 1 ? 0 : i + 0.5 - x, j + 0.5 - y) < radius) this.mask[i * cols + j] = inside;
    this.engine.setMask(this.mask);
  }

  /** The cells that change when one is poked, by the step in which they first do: (n0, n1). */
  async lightCone(i, j, steps) {
    const {cells} = this, at = i * this.settings.points[1] + j, frames = this.engine.frames.map((f) => Float32Array.from(f));
    const poked = frames.map((f) => Float32Array.from(f)), first = new Uint8Array(cells);
    const sizes = this.program.channels.filter((c) => c.kind === "history").map((c) => c.std);
    this.program.fields.forEach((_, c) => { poked[poked.length - 1][c * cells + at] += 0.5 * sizes[c]; });
    const paths = [];
    for (const start of [frames, poked]) {
      this.engine.load(start);
      const path = [];
      for (let s = 0; s < steps; s++) path.push(await this.engine.step());
      paths.push(path);
    }
    this.engine.load(frames);
    for (let s = steps; s > 0; s--)
      for (let k = 0; k < paths[0][s - 1].length; k++)
        if (paths[0][s - 1][k] !== paths[1][s - 1][k]) first[k % cells] = s;
    return first;
  }

  /** What about the state is unlike the training data, worst first: [{words, degree}]. */
  unlike() {
    const {seen, units, end, cellsPerStep} = this.facts, found = [], {cells, learned, previous} = this;
    if (!learned.every(Number.isFinite)) return [{words: "numbers have grown without bound", degree: Infinity}];
    this.program.fields.forEach((name, c) => {
      let low = Infinity, high = -Infinity, change = 0;
      for (let k = c * cells; k < (c + 1) * cells; k++) {
        low = Math.min(low, learned[k]);
        high = Math.max(high, learned[k]);
        if (!this.isGiven && previous) change = Math.max(change, Math.abs(learned[k] - previous[k]));
      }
      const width = seen.high[c] - seen.low[c], unit = units[c] && units[c] !== "1" ? ` ${units[c]}` : "";
      const say = (value) => `${name} = ${short(value)}${unit}`;
      if (high > seen.high[c]) found.push({words: `${say(high)} is above ${short(seen.high[c])}`, degree: (high - seen.high[c]) / width});
      if (low < seen.low[c]) found.push({words: `${say(low)} is below ${short(seen.low[c])}`, degree: (seen.low[c] - low) / width});
      if (seen.change && change > seen.change[c])
        found.push({words: `${name} changes by ${short(change)} in a step, training data by at most ${short(seen.change[c])}`, degree: (change - seen.change[c]) / width});
    });
    this.program.scalars.forEach((s, i) => {
      const value = this.settings.scalars[i], beyond = Math.max(s.low - value, value - s.high) / Math.max(s.high - s.low, 1e-12);
      if (beyond > 1e-3) found.push({words: `${s.name} = ${short(value)} is outside of ${short(s.low)} … ${short(s.high)}`, degree: beyond});
    });
    const {points, radius} = this.program, other = this.settings.points.some((n, axis) => n !== points[axis]);
    if (other && cellsPerStep > Math.max(...radius))
      found.push({words: `waves move ${short(cellsPerStep)} cells a step, farther than the model sees, so it works on ${points.join(" × ").replace("1 × ", "")} cells only`, degree: 1});
    if (end !== null && this.time > end + 1e-9)
      found.push({words: `training trajectories end at t = ${short(end)}`, degree: 0.1});
    return found.filter(({degree}) => degree > 0.02).sort((a, b) => b.degree - a.degree);
  }
}

/** A number in few digits. */
function short(value) {
  if (!Number.isFinite(value)) return "∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
    const [digits, power] = value.toExponential(1).split("e");
    const raised = [...String(+power)].map((letter) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(letter)]).join("");
    return `${digits.replace(/\.0$/, "").replace("-", "−")}·10${raised}`;
  }
  return String(+value.toPrecision(3)).replace("-", "−");
}

const TOOLS = ["paint", "erase", "wall", "open"];
const MOST_DABS = 400;

/** The state in a link: settings, the step, and every dab, in the order in which they were made. */
function writeLink({settings, step, dabs}, more = {}) {
  const query = new URLSearchParams({
    seed: settings.seed, size: settings.points.join("x"), step, compare: settings.reference, ...more,
  });
  if (settings.scalars.length) query.set("parameters", settings.scalars.join(","));
  const words = dabs.slice(-MOST_DABS).map((d) => [d.step, TOOLS.indexOf(d.tool), d.field, 4 * d.x, 4 * d.y, 4 * d.radius]
    .map((n) => Math.round(n).toString(36)).join(".") + "." + d.value.toPrecision(4));
  if (words.length) query.set("dabs", words.join("_"));
  return `#${query}`;
}

/** What a link says; whatever is missing or wrong in it is left out. */
function readLink(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, "")), found = {dabs: []};
  const whole = (name, most) => {
    const text = query.get(name);
    if (text !== null && /^\d+$/.test(text)) found[name] = Math.min(Number(text), most);
  };
  whole("seed", 1e9);
  whole("step", 5000);
  whole("field", 64);
  const size = /^(\d{1,5})x(\d{1,5})$/.exec(query.get("size") ?? "");
  if (size) found.points = [Number(size[1]), Number(size[2])];
  if (["finer", "same"].includes(query.get("compare"))) found.reference = query.get("compare");
  if (["shader", "fast", "plain"].includes(query.get("engine"))) found.engine = query.get("engine");
  const scalars = (query.get("parameters") ?? "").split(",").map(Number);
  if (query.get("parameters") && scalars.every(Number.isFinite)) found.scalars = scalars;
  for (const word of (query.get("dabs") ?? "").split("_").slice(0, MOST_DABS)) {
    const parts = word.split("."), value = Number(parts.slice(6).join("."));
    const [step, tool, field, x, y, radius] = parts.slice(0, 6).map((text) => parseInt(text, 36));
    if ([step, tool, field, x, y, radius, value].every(Number.isFinite) && TOOLS[tool])
      found.dabs.push({step, tool: TOOLS[tool], field, x: x / 4, y: y / 4, radius: radius / 4, value});
  }
  return found;
}
