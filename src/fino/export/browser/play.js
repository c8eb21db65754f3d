// The page itself: canvases, buttons, keys, the chart, the light, the link.
"use strict";

const find = (selector, inside = document) => inside.querySelector(selector);
const make = (name, attributes = {}) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

/** Colours of a map from text: 256 times RRGGBB. */
function readColors(text) {
  return Uint8Array.from({length: 768}, (_, i) => parseInt(text.substr(2 * i, 2), 16));
}

/** A canvas of one pixel for each cell, x to the right and y upwards; lines run down in time. */
class Panel {
  constructor(id, colors, lineRows) {
    const root = find(`#${id}`);
    Object.assign(this, {root, colors, lineRows, canvas: find("canvas", root), overlay: find("svg", root)});
    const stops = Array.from({length: 13}, (_, i) => Math.round(i * 255 / 12));
    find(".scale i", root).style.background = `linear-gradient(90deg, ${stops.map((k) => `rgb(${colors.slice(3 * k, 3 * k + 3)})`).join(", ")})`;
  }

  resize([rows, cols], isLine) {
    Object.assign(this, {rows, cols, isLine});
    this.canvas.width = isLine ? cols : rows;
    this.canvas.height = isLine ? this.lineRows : cols;
    this.canvas.style.aspectRatio = isLine ? "1.25" : `${rows} / ${cols}`;
    this.context = this.canvas.getContext("2d", {alpha: false});
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.image.data.fill(255);
    this.overlay.setAttribute("viewBox", `0 0 ${this.canvas.width} ${this.canvas.height}`);
    this.overlay.setAttribute("preserveAspectRatio", "none");
    this.overlay.replaceChildren();
    this.past = [];
  }

  /** Show one field; `value(i)` is that of cell i.  A line is added below those of before. */
  draw(value, low, high, moved = true) {
    const {image: {data}, rows, cols, colors} = this, scale = 255 / (high - low || 1);
    const put = (to, x) => {
      const k = Number.isNaN(x) ? 255 : clamp(Math.round((x - low) * scale), 0, 255);
      data[to] = colors[3 * k];
      data[to + 1] = colors[3 * k + 1];
      data[to + 2] = colors[3 * k + 2];
    };
    if (this.isLine) {
      if (!moved) this.past.pop();
      this.past.push(Float32Array.from({length: cols}, (_, j) => value(j)));
      if (this.past.length > this.lineRows) this.past.shift();
      this.past.forEach((line, i) => line.forEach((x, j) => put(4 * (i * cols + j), x)));
    } else
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < cols; j++) put(4 * ((cols - 1 - j) * rows + i), value(i * cols + j));
    this.context.putImageData(this.image, 0, 0);
    const [from, to] = this.root.querySelectorAll(".scale span");
    from.textContent = short(low);
    to.textContent = short(high);
  }

  /** Tint cells over the picture: `level(i)` from 0, none, to 1. */
  tint(level) {
    const {rows, cols, image: {data}} = this;
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const share = level(i * cols + j), at = 4 * ((cols - 1 - j) * rows + i);
        for (let k = 0; k < 3; k++) data[at + k] = (1 - share) * (0.45 * data[at + k]) + share * [255, 196, 60][k];
      }
    this.context.putImageData(this.image, 0, 0);
  }

  /** The place of a pointer in cells along the two axes of the grid. */
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const across = clamp((event.clientX - box.left) / box.width, 0, 0.9999), down = clamp((event.clientY - box.top) / box.height, 0, 0.9999);
    return this.isLine ? {x: 0.5, y: across * this.cols} : {x: across * this.rows, y: (1 - down) * this.cols};
  }

  title(words) {
    find(".facts", this.root).textContent = words;
  }
}

/** Error over time on a logarithmic scale, one line each. */
class Chart {
  constructor() {
    this.svg = find("#chart");
  }

  draw(lines, dt, start) {
    const {svg} = this, {clientWidth: width, clientHeight: height} = svg;
    if (!width) return;
    const left = 46, bottom = height - 20, steps = lines.flatMap(({points}) => points.map(([step]) => step));
    const from = Math.min(...steps), to = Math.max(from + 20, ...steps);
    const sizes = lines.flatMap(({points}) => points.map(([, error]) => Math.log10(clamp(error, 1e-7, 1e3))));
    const low = Math.floor(Math.min(-3, ...sizes)), high = Math.max(low + 2, Math.ceil(Math.max(-2, ...sizes)));
    const x = (step) => left + (width - left - 8) * (step - from) / (to - from);
    const y = (error) => 6 + (bottom - 6) * (high - Math.log10(clamp(error, 1e-7, 1e3))) / (high - low);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    for (let power = low; power <= high; power++) {
      svg.append(make("line", {class: "grid", x1: left, x2: width - 8, y1: y(10 ** power), y2: y(10 ** power)}));
      const label = make("text", {x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end"});
      label.textContent = power >= 0 ? `${100 * 10 ** power} %` : power >= -6 ? `${(100 * 10 ** power).toFixed(-2 - power > 0 ? -2 - power : 0)} %` : short(10 ** power);
      svg.append(label);
    }
    for (let i = 0; i <= 4 && steps.length; i++) {
      const step = from + (to - from) * i / 4, label = make("text", {x: x(step), y: height - 5, "text-anchor": i === 4 ? "end" : i ? "middle" : "start"});
      label.textContent = `${i ? "" : "t = "}${short(start + step * dt)}`;
      svg.append(label);
    }
    for (const {kind, points} of lines)
      svg.append(make("polyline", {class: kind, points: points.map(([step, error]) => `${x(step).toFixed(1)},${y(error).toFixed(1)}`).join(" ")}));
  }
}

/** What computes the learned step, the fastest first. */
const ENGINES = {shader: ShaderEngine, fast: FastEngine, plain: PlainEngine};
const ENGINE_NAMES = {shader: "WebGL2", fast: "WebAssembly", plain: "JavaScript"};

class Game {
  constructor(facts) {
    this.facts = facts;
    decodeProgram(facts.program);
    this.linked = readLink(location.hash);
    this.isLine = facts.program.dims === 1;
    this.world = new World(facts, (points) => this.makeEngine(points));
    this.field = facts.field;
    this.limit = 0;
    this.playing = false;
    this.busy = Promise.resolve();
    const field = readColors(facts.maps.field), error = readColors(facts.maps.error);
    this.panels = {learned: new Panel("learned", field, 128)};
    if (facts.solver) {
      this.panels.classical = new Panel("classical", field, 128);
      this.panels.difference = new Panel("difference", error, 128);
      this.chart = new Chart();
    }
    find("#main").classList.toggle("alone", !facts.solver);
  }

  /** Everything that changes the world waits for what was begun before. */
  queue(work) {
    this.busy = this.busy.then(work).catch((error) => this.fail(error));
    return this.busy;
  }

  fail(error) {
    this.pause();
    this.say(`Stopped: ${error.message}.`);
    light("check", "bad", `failed: ${error.message}`);
  }

  say(words) {
    find("#said").textContent = words;
  }

  async open() {
    await this.chooseEngine();
    const {world, linked, facts} = this;
    if (linked.points) world.settings.points = linked.points.map((n, axis) => world.fit(n, axis));
    if (linked.reference && facts.solver?.refine > 1) world.settings.reference = linked.reference;
    if (linked.seed) world.settings.seed = linked.seed;
    if (linked.scalars?.length === world.settings.scalars.length) world.settings.scalars = linked.scalars;
    if (linked.field < facts.program.fields.length) this.field = linked.field;
    find("#main").hidden = false;
    this.listen();
    await this.begin();
    await this.replay(linked);
    this.draw(false);
    document.documentElement.dataset.ready = "yes";
    if (!linked.step && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.play();
  }

  /** The first engine that works here: WebGL2 where a graphics card draws it, else the processor. */
  async chooseEngine() {
    const asked = this.linked.engine, reasons = [];
    if (!asked && softwareDraws()) reasons.push("WebGL2 is drawn by the processor here, so it is not used");
    const order = asked ? [asked, "fast", "plain"] : Object.keys(ENGINES).slice(reasons.length);
    for (const name of order) {
      const found = await this.tryEngine(name, reasons);
      if (found && (found.error < this.facts.check.tolerance || name === "plain")) {
        this.engine = name;
        this.tell(found, reasons.join("; "));
        return;
      }
    }
    throw new Error("nothing computes in this browser");
  }

  async tryEngine(name, reasons) {
    try {
      const found = await checkEngine(this.facts, ENGINES[name]);
      if (found.error >= this.facts.check.tolerance) reasons.push(`${ENGINE_NAMES[name]} differs from torch here, so it is not used`);
      return found;
    } catch (error) {
      reasons.push(`${ENGINE_NAMES[name]} is not used: ${error.message}`);
      return null;
    }
  }

  tell({steps, error}, skipped) {
    const name = ENGINE_NAMES[this.engine], passed = error < this.facts.check.tolerance;
    this.checked = {engine: this.engine, error, steps, passed};
    const said = passed ? `${name} equals torch: ${short(error)} apart after ${steps} steps` : `${name} differs from torch by ${short(error)} of the range after ${steps} steps: do not trust this page in this browser`;
    light("check", passed ? "good" : "bad", said + (skipped ? `; ${skipped}` : ""));
    find("#engine").value = this.engine;
  }

  makeEngine(points) {
    try {
      return new ENGINES[this.engine](this.facts.program, points);
    } catch (error) {
      this.say(`This size does not run with ${ENGINE_NAMES[this.engine]} (${error.message}); JavaScript computes it.`);
      this.engine = find("#engine").value = "plain";
      return new PlainEngine(this.facts.program, points);
    }
  }

  async begin() {
    const {points, scalars} = this.world.settings;
    for (const panel of Object.values(this.panels)) panel.resize(points, this.isLine);
    this.cone = null;
    this.cursor = null;
    this.limit = 0;
    await this.world.begin();
    if (find("#width")) find("#width").value = points[0];
    if (find("#height")) find("#height").value = points[1];
    if (find("#compare")) find("#compare").value = this.world.settings.reference;
    find("#field").value = this.field;
    scalars.forEach((value, i) => this.showScalar(i, value));
    this.offerDifferences();
    this.showValue();
    this.draw();
  }

  /** Go to where a link was made: the same dabs at the same steps. */
  async replay({step = 0, dabs}) {
    for (const dab of dabs.filter((d) => d.step === 0)) this.world.dab(dab);
    for (let now = 1; now <= step; now++) {
      await this.world.advance();
      for (const dab of dabs.filter((d) => d.step === now)) this.world.dab(dab);
      if (this.isLine) this.draw();
      if (now % 10 === 0) {
        this.say(`Replaying the link: step ${now} of ${step}.`);
        this.draw(false);
        await new Promise((done) => setTimeout(done));
      }
    }
    if (step) this.say("");
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    this.cone = null;
    this.showPlaying();
    const round = async () => {
      const began = performance.now(), pace = Number(find("#speed").value);
      await this.queue(() => this.playing && this.advance());
      const rest = (pace ? 1000 / pace : 0) - (performance.now() - began);
      if (rest > 4) await new Promise((done) => setTimeout(done, rest));
      if (this.playing) requestAnimationFrame(round);
    };
    requestAnimationFrame(round);
  }

  pause() {
    this.playing = false;
    this.showPlaying();
  }

  showPlaying() {
    find("#play").classList.toggle("on", this.playing);
    find("#play span").textContent = this.playing ? "Pause" : "Play";
    if (!this.playing && this.world.given) this.keepLink();
  }

  async advance() {
    await this.world.advance();
    this.draw();
  }

  /** Start over with other settings. */
  restart(change) {
    this.queue(async () => {
      Object.assign(this.world.settings, change);
      await this.begin();
      this.keepLink();
    });
  }

  draw(moved = true) {
    const {world, field, panels, facts} = this, {cells} = world, at = field * cells;
    const low = facts.shown.low[field], high = facts.shown.high[field];
    panels.learned.draw((i) => (world.mask && !world.mask[i] ? NaN : world.learned[at + i]), low, high, moved);
    if (world.Solver) {
      panels.classical.draw((i) => world.classical[at + i], low, high, moved);
      this.drawDifference(at, moved);
      this.drawErrors();
    }
    this.drawWords();
    if (this.cone) this.drawCone();
  }

  drawDifference(at, moved) {
    const {world, panels: {difference}} = this, [first, second] = find("#shown").value.split("-");
    const a = world[first], b = world[second];
    let most = 0;
    for (let i = at; i < at + world.cells; i++) most = Math.max(most, Math.abs(a[i] - b[i]) || 0);
    // A scale that is easy to read, and does not flicker: 1, 2 or 5 times a power of ten.
    if (most > this.limit || most < 0.2 * this.limit) {
      const power = 10 ** Math.floor(Math.log10(Math.max(most, 1e-6)));
      this.limit = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= most) ?? 10 * power;
    }
    difference.draw((i) => a[at + i] - b[at + i], -this.limit, this.limit, moved);
    difference.title(world.isGiven ? "" : `max ${short(most)}`);
  }

  drawErrors() {
    const {world, field} = this, isFiner = world.own !== world.reference;
    const series = (name) => world.errors.filter((e) => e[name]).map((e) => [e.step, e[name][field]]);
    const lines = [{kind: "learned", points: series("learned")}];
    if (isFiner) lines.push({kind: "classical", points: series("classical")});
    this.chart.draw(lines, world.program.dt, world.begins);
    const last = world.errors[world.errors.length - 1], percent = (e) => `${+(100 * e).toPrecision(2)} %`;
    const names = {learned: "learned stencil", classical: "classical solver, same grid"};
    find("#legend").replaceChildren(...lines.map(({kind}) => {
      const entry = document.createElement("span"), mark = make("svg", {viewBox: "0 0 30 8"}), value = document.createElement("b");
      mark.append(make("line", {x1: 0, x2: 30, y1: 4, y2: 4, class: kind}));
      value.textContent = last ? percent(last[kind][field]) : "–";
      entry.append(mark, `${names[kind]} `, value);
      return entry;
    }));
    const against = isFiner ? `the solver on a ${world.refine}× finer grid` : "the solver on the same grid, which is not exact either";
    find("#errors-of").textContent = `of ${this.facts.program.fields[field]}, relative to ${against}`;
  }

  drawWords() {
    const {world, panels} = this, took = (name) => (world.times[name] === undefined ? "" : `${short(world.times[name])} ms/step`);
    const given = world.isGiven ? `given, frame ${world.given.length} of ${world.history}` : null;
    panels.learned.title(given ?? took("learned"));
    if (world.Solver) panels.classical.title(given ?? (world.own === world.reference ? took("reference") : `same grid, ${took("classical")}`));
    find("#clock").textContent = `step ${world.step}, t = ${short(world.time)}`;
    const found = world.unlike(), worst = found[0];
    if (!worst) light("light", "good", "like the training data");
    else light("light", worst.degree > 0.25 ? "bad" : "careful", `unlike the training data: ${found.slice(0, 2).map(({words}) => words).join("; ")}`);
  }

  /** Which differences there are to look at. */
  offerDifferences() {
    const select = find("#shown");
    if (!select) return;
    const isFiner = this.world.refine > 1, before = select.value;
    const offers = isFiner
      ? [["learned-truth", "Learned − finer solver"], ["classical-truth", "Classical − finer solver"], ["learned-classical", "Learned − classical"]]
      : [["learned-classical", "Learned − classical"]];
    select.replaceChildren(...offers.map(([value, words]) => new Option(words, value)));
    if (offers.some(([value]) => value === before)) select.value = before;
  }

  listen() {
    const {facts, world} = this, on = (id, event, work) => find(id)?.addEventListener(event, work);
    on("#play", "click", () => (this.playing ? this.pause() : this.play()));
    on("#step", "click", () => {
      this.pause();
      this.cone = null;
      this.queue(() => this.advance());
    });
    on("#reset", "click", () => this.restart({}));
    on("#random", "click", () => this.restart({seed: world.settings.seed + 1}));
    on("#field", "change", (e) => {
      this.field = Number(e.target.value);
      this.limit = 0;
      for (const panel of Object.values(this.panels)) panel.past = [];
      this.showValue();
      this.draw();
      this.keepLink();
    });
    for (const id of ["#width", "#height"]) on(id, "change", () => this.resize());
    on("#compare", "change", (e) => this.restart({reference: e.target.value}));
    on("#shown", "change", () => { this.limit = 0; this.draw(false); });
    on("#engine", "change", (e) => this.queue(() => this.changeEngine(e.target.value)));
    on("#link", "click", () => this.copyLink());
    on("#value", "input", () => this.showValue());
    for (const slider of document.querySelectorAll("[data-scalar]"))
      slider.addEventListener("input", () => this.queue(() => this.setScalar(Number(slider.dataset.scalar), slider.value / 1000)));
    find("#pick-field").hidden = facts.program.fields.length < 2;
    this.listenToPointers();
    document.addEventListener("keydown", (e) => this.press(e));
    addEventListener("resize", () => this.chart && this.drawErrors());
    // Another link in the address bar; the page's own changes do not end up here.
    addEventListener("hashchange", () => location.reload());
  }

  listenToPointers() {
    for (const panel of [this.panels.learned, this.panels.classical].filter(Boolean)) {
      let last = null;
      panel.canvas.addEventListener("pointerdown", (e) => {
        if (e.button !== 0) return;
        e.preventDefault();
        panel.canvas.setPointerCapture(e.pointerId);
        last = panel.cellAt(e);
        this.use(last);
      });
      panel.canvas.addEventListener("pointermove", (e) => {
        const here = panel.cellAt(e);
        this.showCursor(here);
        if (!last || this.tool === "cone") return;
        // A stroke is a row of dabs half a brush apart.
        const apart = Math.hypot(here.x - last.x, here.y - last.y), stride = Math.max(0.5, this.brush / 2);
        if (apart < stride) return;
        last = here;
        this.use(here);
      });
      for (const event of ["pointerup", "pointercancel"])
        panel.canvas.addEventListener(event, () => {
          if (last) this.queue(() => this.keepLink());
          last = null;
        });
      panel.canvas.addEventListener("pointerleave", () => this.showCursor(null));
    }
  }

  get tool() {
    return find("input[name=tool]:checked").value;
  }

  get brush() {
    return Number(find("#brush").value);
  }

  /** The value that the brush paints: a share of the range of the training data. */
  get value() {
    const {low, high} = this.facts.seen, share = Number(find("#value").value) / 100;
    return low[this.field] + share * (high[this.field] - low[this.field]);
  }

  showValue() {
    find("#painted").textContent = short(this.value);
  }

  /** Use the tool at a place in cells. */
  use({x, y}) {
    if (this.tool === "cone") {
      this.queue(() => this.showCone(Math.floor(x), Math.floor(y)));
      return;
    }
    const round = (n) => Math.round(4 * n) / 4, {tool} = this;
    const value = tool === "erase" ? this.facts.rest[this.field] : this.value;
    const stroke = {x: round(x), y: round(y), radius: Math.max(1, this.brush), tool, field: this.field, value: Number(value.toPrecision(4))};
    this.queue(() => {
      this.cone = null;
      this.world.dab(stroke);
      this.draw(false);
    });
  }

  showCursor(place) {
    const {overlay, rows, cols, isLine, lineRows} = this.panels.learned;
    overlay.querySelector(".cursor")?.remove();
    this.cursor = place;
    if (!place) return;
    const radius = this.tool === "cone" ? 0.7 : this.brush;
    const [cx, cy] = isLine ? [place.y, lineRows / 2] : [place.x, cols - place.y];
    overlay.append(make("ellipse", {class: "cursor", cx, cy, rx: radius, ry: isLine ? lineRows : radius}));
  }

  /** Poke a cell and show which cells feel it, step by step, within what the model promises. */
  async showCone(i, j) {
    this.pause();
    const {world} = this, {program} = world, steps = 3;
    if (world.isGiven) {
      this.say("The model has not begun yet: it is still given frames. Let it run first.");
      return;
    }
    const first = await world.lightCone(this.isLine ? 0 : i, j, steps);
    const [rows, cols] = world.settings.points, [r0, r1] = program.radius;
    const away = (a, b, n, axis) => (program.boundary[axis] === "periodic" ? Math.min(Math.abs(a - b), n - Math.abs(a - b)) : Math.abs(a - b));
    let farther = 0, changed = 0;
    first.forEach((step, k) => {
      const a = away(Math.floor(k / cols), this.isLine ? 0 : i, rows, 0), b = away(k % cols, j, cols, 1);
      if (step === 1) changed += 1;
      if (step && (a > step * r0 || b > step * r1)) farther += 1;
    });
    this.cone = {first, i, j, steps};
    const reach = this.isLine ? r1 : Math.max(r0, r1), speed = this.facts.cellsPerStep;
    const physics = speed ? ` Waves move ${short(speed)} cells a step.` : "";
    const kept = farther ? `${farther} cells farther away changed: this should not happen` : "no cell farther away changed";
    this.say(`Light cone of cell (${this.isLine ? "" : `${i}, `}${j}): poked, it changes ${changed} cells in one step. The model sees ${reach} cells a step (dashed: one to ${steps} steps), and ${kept}.${physics}`);
    this.draw(false);
  }

  drawCone() {
    const {panels: {learned}, cone: {first, i, j, steps}, world: {program: {radius}}} = this;
    learned.overlay.querySelectorAll(".reach").forEach((mark) => mark.remove());
    if (this.isLine) return;
    learned.tint((k) => (first[k] ? 0.75 / first[k] : 0));
    for (let s = 1; s <= steps; s++) {
      const [a, b] = radius.map((r) => s * r);
      learned.overlay.append(make("rect", {class: "reach", x: i - a, y: learned.cols - 1 - j - b, width: 2 * a + 1, height: 2 * b + 1}));
    }
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const typing = event.target.tagName === "INPUT" && event.target.type === "number";
    if (typing || (event.target.tagName === "INPUT" && event.key.startsWith("Arrow"))) return;
    const click = (id) => () => find(id).click(), pick = (tool) => () => find(`input[value=${tool}]`)?.click();
    const keys = {
      " ": click("#play"), s: click("#step"), r: click("#reset"), n: click("#random"), l: click("#link"),
      1: pick("paint"), 2: pick("erase"), 3: pick("wall"), 4: pick("open"), c: pick("cone"),
      "[": () => { find("#brush").value = this.brush - 1; }, "]": () => { find("#brush").value = this.brush + 1; },
    };
    const isOnField = event.target === this.panels.learned.canvas;
    if (isOnField && event.key.startsWith("Arrow")) this.moveCursor(event.key.slice(5), event.shiftKey ? 8 : 1);
    else if (isOnField && event.key === "Enter") this.use(this.cursor ?? this.middle);
    else if (event.key === " " && event.target.tagName === "BUTTON" && event.target.id !== "play") return;
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  }

  get middle() {
    const [rows, cols] = this.world.settings.points;
    return {x: rows / 2, y: cols / 2};
  }

  moveCursor(direction, cells) {
    const {x, y} = this.cursor ?? this.middle, [rows, cols] = this.world.settings.points;
    const [across, up] = {Left: [-cells, 0], Right: [cells, 0], Up: [0, cells], Down: [0, -cells]}[direction];
    const place = this.isLine ? {x: 0.5, y: y + across} : {x: x + across, y: y + up};
    this.showCursor({x: clamp(place.x, 0, rows - 0.01), y: clamp(place.y, 0, cols - 0.01)});
  }

  resize() {
    const asked = [find("#width")?.value ?? 1, find("#height").value].map(Number), {world} = this;
    if (!asked.every((n) => n > 0)) return;
    const points = asked.map((n, axis) => world.fit(n, axis));
    if (points.some((n, axis) => n !== asked[axis])) {
      const {stride, smallest} = world.program, least = Math.max(...smallest), by = Math.max(...stride);
      this.say(`The model runs on sizes from ${least} cells${by > 1 ? ` in steps of ${by}` : ""}; the page on up to ${world.fit(1e9, 1)}.`);
    } else this.say("");
    this.restart({points});
  }

  async changeEngine(name) {
    this.pause();
    const reasons = [], found = await this.tryEngine(name, reasons);
    if (!found || found.error >= this.facts.check.tolerance) {
      this.say(`${reasons.join("; ")}.`);
      find("#engine").value = this.engine;
      return;
    }
    this.engine = name;
    this.tell(found);
    const {world} = this, old = world.engine;
    world.engine = this.makeEngine(world.settings.points);
    world.engine.setScalars(world.settings.scalars);
    world.engine.setMask(world.mask);
    if (!world.isGiven) world.engine.load(old.frames);
    old.close();
    world.times = {};
    this.draw(false);
  }

  /** Sliders run from a quarter of the range below to a quarter above, so that the light can tell. */
  scalarRange(place) {
    const {low, high, log} = this.facts.program.scalars[place];
    const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high], margin = 0.25 * (b - a || 1);
    return {from: a - margin, to: b + margin, read: log ? Math.exp : (x) => x, write: log ? Math.log : (x) => x};
  }

  setScalar(place, share) {
    const {from, to, read} = this.scalarRange(place), value = Number(read(from + share * (to - from)).toPrecision(4));
    this.world.setScalar(place, value);
    this.showScalar(place, value);
    this.drawWords();
    this.keepLink();
  }

  showScalar(place, value) {
    const {from, to, write} = this.scalarRange(place), slider = find(`[data-scalar="${place}"]`);
    slider.value = 1000 * (write(value) - from) / (to - from);
    find("output", slider.parentElement).textContent = short(value);
  }

  keepLink() {
    const {world, field} = this, more = {field, ...(this.linked.engine ? {engine: this.engine} : {})};
    history.replaceState(null, "", writeLink(world, more));
  }

  async copyLink() {
    this.keepLink();
    const most = this.world.dabs.length > MOST_DABS ? ` It holds the last ${MOST_DABS} dabs only.` : "";
    try {
      await navigator.clipboard.writeText(location.href);
      this.say(`The link is copied: it opens this page at step ${this.world.step}, with all that was painted.${most}`);
    } catch {
      this.say(`The address of this page is the link: it opens at step ${this.world.step}.${most}`);
    }
  }
}

function light(id, kind, words) {
  const root = find(`#${id}`);
  root.hidden = false;
  root.className = `light ${kind}`;
  find("span", root).textContent = words;
}

/** Whether WebGL2 is there, but drawn by the processor. */
function softwareDraws() {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const found = rendererIsSoftware(gl);
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return found;
}

if (typeof document !== "undefined" && document.getElementById("facts")) {
  const game = new Game(JSON.parse(find("#facts").textContent));
  window.fino = game;
  game.open().catch((error) => game.fail(error));
}
