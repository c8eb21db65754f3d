// The learned step on the graphics card: one WebGL2 program for each operation, written for it.
//
// A value is an array of RGBA textures, four channels in each layer, and a pass draws as many
// layers at once as the browser lets it.  Weights are uniform blocks of 4×4 matrices, one block
// for each four outputs.  The last K frames stay on the card; only answers are read back.
//
// `ShaderEngine` has the methods of `PlainEngine`; its constructor throws where it cannot work.
"use strict";

const VERTEX = `#version 300 es
void main() { gl_Position = vec4(gl_VertexID == 1 ? 3. : -1., gl_VertexID == 2 ? 3. : -1., 0., 1.); }`;

/** How each activation is written; the error function is that of network.js. */
const SHADER_ACTIVATIONS = {
  relu: "vec4 act(vec4 x) { return max(x, 0.); }",
  silu: "vec4 act(vec4 x) { return x / (1. + exp(-x)); }",
  tanh: "vec4 act(vec4 x) { vec4 e = exp(-2. * abs(x)); return sign(x) * (1. - e) / (1. + e); }",
  gelu: `vec4 act(vec4 x) {
  vec4 z = abs(x) * 0.70710678, t = 1. / (1. + 0.3275911 * z);
  vec4 tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return 0.5 * x * (1. + sign(x) * (1. - tail * exp(-z * z)));
}`,
};

/** The index of a ghost cell; −1 is zero. */
const GHOST = {
  periodic: "(i % n + n) % n",
  neumann: "clamp(i, 0, n - 1)",
  reflect: "i < 0 ? -i : i < n ? i : 2 * (n - 1) - i",
  dirichlet: "i < 0 || i >= n ? -1 : i",
};

/** A number as GLSL writes it. */
function literal(x) {
  const text = String(Math.fround(x));
  return /[.e]/.test(text) ? text : `${text}.`;
}

/** Whether the processor draws in place of a graphics card; then plain JavaScript is faster. */
function rendererIsSoftware(gl) {
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  const name = gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

const groupsOf = (channels) => Math.ceil(channels / 4);

class ShaderEngine {
  constructor(program, points) {
    Object.assign(this, {program, points, name: "WebGL2", passes: [], free: new Map()});
    this.cells = points[0] * points[1];
    this.groups = groupsOf(program.fields.length);
    this.canvas = document.createElement("canvas");
    const gl = this.gl = this.canvas.getContext("webgl2", {antialias: false, depth: false, powerPreference: "high-performance"});
    if (!gl) throw new Error("this browser has no WebGL2");
    if (!gl.getExtension("EXT_color_buffer_float")) throw new Error("this graphics card does not draw float32");
    if (Math.max(...points) > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Error("the domain is larger than a texture");
    this.most = Math.min(gl.getParameter(gl.MAX_DRAW_BUFFERS), gl.getParameter(gl.MAX_COLOR_ATTACHMENTS));
    this.blockBytes = gl.getParameter(gl.MAX_UNIFORM_BLOCK_SIZE);
    this.blocks = gl.getParameter(gl.MAX_FRAGMENT_UNIFORM_BLOCKS) - 1;
    gl.bindVertexArray(gl.createVertexArray());
    this.uniforms = gl.createBuffer();
    this.packed = gl.createBuffer();
    gl.bindBuffer(gl.PIXEL_PACK_BUFFER, this.packed);
    gl.bufferData(gl.PIXEL_PACK_BUFFER, 16 * this.cells, gl.STREAM_COPY);
    gl.bindBuffer(gl.PIXEL_PACK_BUFFER, null);
    this.values = layout(program);
    this.ring = this.texture(0, program.history * this.groups);
    this.maskTexture = this.texture(0, 1);
    this.newest = program.history - 1;
    this.setScalars(program.scalars.map((s) => s.start));
    this.setMask(null);
    this.generate();
    const error = gl.getError();
    if (error) throw new Error(`WebGL2 reports error ${error}`);
  }

  /** Give everything back: a page that makes a new engine must not keep the old one. */
  close() {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  setScalars(values) {
    this.scalars = values;
    this.modulation = modulation(this.program, values);
    this.stale = true;
  }

  setMask(mask) {
    const {gl} = this, [rows, cols] = this.points, pixels = new Float32Array(4 * this.cells).fill(1);
    if (mask) for (let i = 0; i < this.cells; i++) pixels[4 * i] = mask[i];
    this.mask = mask;
    gl.bindTexture(gl.TEXTURE_2D_ARRAY, this.maskTexture.texture);
    gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, 0, cols, rows, 1, gl.RGBA, gl.FLOAT, pixels);
  }

  load(frames) {
    this.frames = frames.map((frame) => Float32Array.from(frame));
    this.newest = frames.length - 1;
    this.frames.forEach((frame, k) => this.upload(frame, k));
  }

  push(frame) {
    this.frames = [...this.frames.slice(1), Float32Array.from(frame)];
    this.newest = (this.newest + 1) % this.program.history;
    this.upload(frame, this.newest);
  }

  /** One step: every pass in turn; the promise is kept when the answer has been read back. */
  async step() {
    const {mask, frames} = this, {boundary, walls, outside, halved} = this.program, masked = mask && walls;
    // What lies at the walls of a mask is filled in by the processor.
    if (masked)
      frames.forEach((frame, k) => this.upload(extend(frame, mask, this.points, boundary, walls, outside, halved), k));
    if (masked) this.newest = frames.length - 1;
    this.run();
    this.newest = (this.newest + 1) % this.program.history;
    this.keep(this.newest);
    const frame = await this.download();
    this.frames = [...frames.slice(1), frame];
    return frame;
  }

  upload(frame, slot) {
    const {gl, cells, groups} = this, [rows, cols] = this.points, count = this.program.fields.length;
    for (let group = 0; group < groups; group++) {
      const pixels = new Float32Array(4 * cells);
      for (let c = 4 * group; c < Math.min(count, 4 * group + 4); c++)
        for (let i = 0; i < cells; i++) pixels[4 * i + c % 4] = frame[c * cells + i];
      gl.bindTexture(gl.TEXTURE_2D_ARRAY, this.ring.texture);
      gl.texSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, slot * groups + group, cols, rows, 1, gl.RGBA, gl.FLOAT, pixels);
    }
  }

  /** The answer: (c, n0, n1).  Reading through a buffer and a fence does not stall the card. */
  async download() {
    const {gl, cells, groups} = this, [rows, cols] = this.points, count = this.program.fields.length;
    const frame = new Float32Array(count * cells), pixels = this.pixels ??= new Float32Array(4 * cells);
    for (let group = 0; group < groups; group++) {
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.target(this.answer, group, 1));
      gl.bindBuffer(gl.PIXEL_PACK_BUFFER, this.packed);
      gl.readPixels(0, 0, cols, rows, gl.RGBA, gl.FLOAT, 0);
      const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
      gl.flush();
      while (gl.clientWaitSync(fence, 0, 0) === gl.TIMEOUT_EXPIRED) await new Promise((done) => setTimeout(done, 1));
      gl.deleteSync(fence);
      gl.getBufferSubData(gl.PIXEL_PACK_BUFFER, 0, pixels);
      gl.bindBuffer(gl.PIXEL_PACK_BUFFER, null);
      for (let c = 4 * group; c < Math.min(count, 4 * group + 4); c++)
        for (let i = 0; i < cells; i++) frame[c * cells + i] = pixels[4 * i + c % 4];
    }
    if (gl.isContextLost()) throw new Error("the graphics card was taken away");
    return frame;
  }

  /** Copy the answer into its place among the frames. */
  keep(slot) {
    const {gl, groups} = this, [rows, cols] = this.points;
    for (let group = 0; group < groups; group++) {
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.target(this.answer, group, 1));
      gl.bindTexture(gl.TEXTURE_2D_ARRAY, this.ring.texture);
      gl.copyTexSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, slot * groups + group, 0, 0, cols, rows);
    }
  }

  run() {
    const {gl} = this;
    for (const pass of this.passes) {
      const [rows, cols] = this.size(pass.to.level);
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.target(pass.to, pass.first, pass.count));
      gl.viewport(0, 0, cols, rows);
      gl.useProgram(pass.shader);
      pass.from.forEach((value, unit) => {
        gl.activeTexture(gl.TEXTURE0 + unit);
        gl.bindTexture(gl.TEXTURE_2D_ARRAY, value.texture);
      });
      gl.activeTexture(gl.TEXTURE0);
      if (this.stale || pass.moves) pass.set?.();
      pass.ranges.forEach(([offset, size], at) => gl.bindBufferRange(gl.UNIFORM_BUFFER, at, this.uniforms, offset, size));
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
    this.stale = false;
  }

  size(level) {
    return this.points.map((n, axis) => n >> (this.program.halved[axis] ? level : 0));
  }

  texture(level, layers) {
    const {gl} = this, [rows, cols] = this.size(level), texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D_ARRAY, texture);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl.RGBA32F, cols, rows, layers);
    for (const name of ["MIN", "MAG"]) gl.texParameteri(gl.TEXTURE_2D_ARRAY, gl[`TEXTURE_${name}_FILTER`], gl.NEAREST);
    return {texture, level, layers, targets: new Map()};
  }

  /** A frame to draw into: `count` layers of a value from `first` on. */
  target(value, first, count) {
    const {gl} = this, key = `${first}+${count}`;
    if (!value.targets.has(key)) {
      const frame = gl.createFramebuffer(), places = [];
      gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
      for (let i = 0; i < count; i++) {
        places.push(gl.COLOR_ATTACHMENT0 + i);
        gl.framebufferTextureLayer(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0 + i, value.texture, 0, first + i);
      }
      gl.drawBuffers(places);
      gl.readBuffer(gl.COLOR_ATTACHMENT0);
      value.targets.set(key, frame);
    }
    return value.targets.get(key);
  }

  /** A value that nothing reads any more lends its texture to a later one. */
  take(level, layers) {
    const kept = this.free.get(`${level} ${layers}`);
    return kept?.length ? kept.pop() : this.texture(level, layers);
  }

  release(value) {
    const key = `${value.level} ${value.layers}`;
    if (!this.free.has(key)) this.free.set(key, []);
    this.free.get(key).push(value);
  }

  generate() {
    const {program} = this, weights = [];
    this.weights = weights;
    const values = [this.take(0, groupsOf(program.channels.length))];
    this.generateInputs(values[0]);
    program.operations.forEach((operation, i) => {
      const {level, channels} = this.values[i + 1], from = operation.sources.map((at) => values[at]);
      const to = this.take(level, groupsOf(channels));
      this[operation.kind](operation, from, to, i);
      values.push(to);
      operation.sources.forEach((at) => {
        if (this.values[at].last === i && values[at]) {
          this.release(values[at]);
          values[at] = null;
        }
      });
    });
    this.answer = this.texture(0, this.groups);
    this.generateAnswer(values[values.length - 1]);
    const {gl} = this, size = weights.reduce((most, part) => Math.max(most, part.offset + part.data.byteLength), 16);
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.uniforms);
    gl.bufferData(gl.UNIFORM_BUFFER, size, gl.STATIC_DRAW);
    for (const {offset, data} of weights) gl.bufferSubData(gl.UNIFORM_BUFFER, offset, data);
  }

  /** Room in the buffer of weights for a block. */
  block(data) {
    if (data.byteLength > this.blockBytes) throw new Error("a layer is too wide for this graphics card");
    const align = this.gl.getParameter(this.gl.UNIFORM_BUFFER_OFFSET_ALIGNMENT), last = this.weights[this.weights.length - 1];
    const end = last ? last.offset + last.data.byteLength : 0, offset = Math.ceil(end / align) * align;
    this.weights.push({offset, data});
    return [offset, data.byteLength];
  }

  /** Compile a pass; `blocks` are uniform blocks by name: (4×4 matrices, then a bias vector). */
  pass({source, from, to, first, count, blocks = {}, set = null, moves = false}) {
    const {gl} = this, shader = gl.createProgram();
    const head = ["#version 300 es", "precision highp float; precision highp int; precision highp sampler2DArray;"];
    from.forEach((_, i) => head.push(`uniform sampler2DArray from${i};`));
    for (const [name, {matrices}] of Object.entries(blocks))
      head.push(`layout(std140) uniform ${name}Block { mat4 ${name}[${matrices}]; vec4 ${name}Bias; };`);
    for (let i = 0; i < count; i++) head.push(`layout(location = ${i}) out vec4 out${i};`);
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, [...head, source].join("\n")]]) {
      const part = gl.createShader(kind);
      gl.shaderSource(part, text);
      gl.compileShader(part);
      gl.attachShader(shader, part);
      if (!gl.getShaderParameter(part, gl.COMPILE_STATUS) && !gl.isContextLost())
        throw new Error(`a shader does not compile: ${gl.getShaderInfoLog(part)}`);
    }
    gl.linkProgram(shader);
    if (!gl.getProgramParameter(shader, gl.LINK_STATUS)) throw new Error(`a shader does not link: ${gl.getProgramInfoLog(shader)}`);
    gl.useProgram(shader);
    from.forEach((_, i) => gl.uniform1i(gl.getUniformLocation(shader, `from${i}`), i));
    const ranges = Object.entries(blocks).map(([name, {data}], at) => {
      gl.uniformBlockBinding(shader, gl.getUniformBlockIndex(shader, `${name}Block`), at);
      return this.block(data);
    });
    const bound = set && (() => set((name) => gl.getUniformLocation(shader, name)));
    this.passes.push({shader, from, to, first, count, ranges, set: bound, moves});
  }

  /** The weights that make four outputs, as the shader reads them: taps, input groups, matrices. */
  matrices(weight, [outputs, inputs, ...taps], group, bias, factor = 1) {
    const area = taps.reduce((a, b) => a * b, 1), groups = groupsOf(inputs), matrices = area * groups;
    const data = new Float32Array(16 * matrices + 4);
    for (let o = 4 * group; o < Math.min(outputs, 4 * group + 4); o++) {
      for (let t = 0; t < area; t++)
        for (let c = 0; c < inputs; c++) // column-major: the column is the input
          data[16 * (t * groups + (c >> 2)) + 4 * (c & 3) + (o & 3)] = factor * weight[(o * inputs + c) * area + t];
      data[16 * matrices + (o & 3)] = bias ? bias[o] : 0;
    }
    return {data, matrices};
  }

  /** How many groups of outputs one pass can make. */
  atOnce(groups, spare = 0) {
    return Math.max(1, Math.min(groups, this.most, this.blocks - spare));
  }

  /** The loops over the taps of a stencil: every input vector x adds to the sums in `names`. */
  gather(level, groups, [t0, t1], dilation, names) {
    const [rows, cols] = this.size(level), {boundary} = this.program;
    const add = names.map(([sum, weight]) => `${sum} += ${weight}[k] * x;`).join(" ");
    return {
      functions: `int ghostRow(int i) { const int n = ${rows}; return ${GHOST[boundary[0]]}; }
int ghostColumn(int i) { const int n = ${cols}; return ${GHOST[boundary[1]]}; }`,
      loops: `int k = 0;
  for (int p = ${-(t0 >> 1)}; p <= ${t0 >> 1}; p++) for (int q = ${-(t1 >> 1)}; q <= ${t1 >> 1}; q++) {
    int row = ghostRow(at.y + p * ${dilation}), column = ghostColumn(at.x + q * ${dilation});
    float here = row < 0 || column < 0 ? 0. : 1.;
    for (int g = 0; g < ${groups}; g++, k++) {
      vec4 x = here * texelFetch(from0, ivec3(max(column, 0), max(row, 0), g), 0);
      ${add}
    }
  }`,
    };
  }

  stencil(operation, from, to) {
    const [outputs, inputs, ...taps] = operation.shape, {level} = from[0], all = groupsOf(outputs);
    const step = this.atOnce(all), activation = operation.activation;
    for (let first = 0; first < all; first += step) {
      const count = Math.min(step, all - first), own = Array.from({length: count}, (_, i) => i), blocks = {};
      own.forEach((i) => { blocks[`w${i}`] = this.matrices(operation.weight, operation.shape, first + i, operation.bias); });
      const {functions, loops} = this.gather(level, groupsOf(inputs), taps, operation.dilation, own.map((i) => [`s${i}`, `w${i}`]));
      const source = `${activation ? SHADER_ACTIVATIONS[activation] : ""}
${functions}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  ${own.map((i) => `vec4 s${i} = w${i}Bias;`).join(" ")}
  ${loops}
  ${own.map((i) => `out${i} = ${activation ? `act(s${i})` : `s${i}`};`).join(" ")}
}`;
      this.pass({source, from, to, first, count, blocks});
    }
  }

  /** Stencil and gate in one pass where they fit, then the fused sum with the field itself. */
  euler(operation, from, to, i) {
    const [features, channels, ...taps] = operation.shape, {level} = from[0], all = groupsOf(features);
    const gated = this.take(level, all), fits = all <= this.atOnce(all) && 2 * all <= this.blocks;
    const inner = Array.from({length: all}, (_, g) => g);
    if (fits || !operation.gate) this.stencilAndGate(operation, from, gated, i, inner);
    else {
      const plain = this.take(level, all);
      this.stencil({...operation, activation: null, dilation: 1}, from, plain);
      this.gateAlone(operation, [plain], gated, i);
      this.release(plain);
    }
    const wide = groupsOf(channels), step = this.atOnce(wide);
    for (let first = 0; first < wide; first += step) {
      const count = Math.min(step, wide - first), own = Array.from({length: count}, (_, g) => g), blocks = {};
      own.forEach((g) => { blocks[`w${g}`] = this.matrices(operation.fuse, [channels, features], first + g, null); });
      const source = `uniform float dt;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  ${own.map((g) => `vec4 s${g} = vec4(0.);`).join(" ")}
  for (int k = 0; k < ${all}; k++) { vec4 x = texelFetch(from1, ivec3(at, k), 0); ${own.map((g) => `s${g} += w${g}[k] * x;`).join(" ")} }
  ${own.map((g) => `out${g} = texelFetch(from0, ivec3(at, ${first + g}), 0) + dt * s${g};`).join("\n  ")}
}`;
      const set = (find) => this.gl.uniform1f(find("dt"), this.modulation.films[i]?.dt ?? 1);
      this.pass({source, from: [from[0], gated], to, first, count, blocks, set});
    }
    this.release(gated);
  }

  /** Numbers that parameters θ give to a block, as uniform vectors. */
  setFilm(find, i, names) {
    const film = this.modulation.films[i], {gl} = this;
    if (!film) return;
    for (const name of names) {
      const padded = new Float32Array(4 * groupsOf(film[name].length));
      padded.set(film[name]);
      gl.uniform4fv(find(`film_${name}`), padded);
    }
  }

  stencilAndGate(operation, from, gated, i, inner) {
    const [features, channels, ...taps] = operation.shape, all = inner.length, blocks = {};
    const names = operation.film ? ["scale", "shift", ...(operation.gate ? ["gate"] : [])] : [];
    inner.forEach((g) => { blocks[`w${g}`] = this.matrices(operation.weight, operation.shape, g, operation.bias); });
    if (operation.gate)
      inner.forEach((g) => { blocks[`v${g}`] = this.matrices(operation.gate, [features, features], g, operation.gateBias); });
    const {functions, loops} = this.gather(from[0].level, groupsOf(channels), taps, 1, inner.map((g) => [`s${g}`, `w${g}`]));
    const bend = names.length ? inner.map((g) => `s${g} = film_scale[${g}] * s${g} + film_shift[${g}];`).join(" ") : "";
    const gates = inner.map((g) => {
      const sum = inner.map((h) => `v${g}[${h}] * s${h}`).join(" + ");
      return `out${g} = s${g} / (1. + exp(-(v${g}Bias + ${sum}${names.length ? ` + film_gate[${g}]` : ""})));`;
    });
    const source = `${names.map((name) => `uniform vec4 film_${name}[${all}];`).join(" ")}
${functions}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  ${inner.map((g) => `vec4 s${g} = w${g}Bias;`).join(" ")}
  ${loops}
  ${bend}
  ${operation.gate ? gates.join("\n  ") : inner.map((g) => `out${g} = s${g};`).join(" ")}
}`;
    this.pass({source, from, to: gated, first: 0, count: all, blocks, set: (find) => this.setFilm(find, i, names)});
  }

  /** The gate of a block that is too wide for one pass. */
  gateAlone(operation, from, gated, i) {
    const [features] = operation.shape, all = groupsOf(features), step = this.atOnce(all);
    const names = operation.film ? ["scale", "shift", "gate"] : [];
    for (let first = 0; first < all; first += step) {
      const own = Array.from({length: Math.min(step, all - first)}, (_, g) => g), blocks = {};
      own.forEach((g) => { blocks[`v${g}`] = this.matrices(operation.gate, [features, features], first + g, operation.gateBias); });
      const bend = (k) => (names.length ? `x = film_scale[${k}] * x + film_shift[${k}];` : "");
      const source = `${names.map((name) => `uniform vec4 film_${name}[${all}];`).join(" ")}
vec4 read(ivec2 at, int k) { vec4 x = texelFetch(from0, ivec3(at, k), 0); ${bend("k")} return x; }
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  ${own.map((g) => `vec4 s${g} = v${g}Bias${names.length ? ` + film_gate[${first + g}]` : ""};`).join(" ")}
  for (int k = 0; k < ${all}; k++) { vec4 x = read(at, k); ${own.map((g) => `s${g} += v${g}[k] * x;`).join(" ")} }
  ${own.map((g) => `out${g} = read(at, ${first + g}) / (1. + exp(-s${g}));`).join("\n  ")}
}`;
      this.pass({source, from, to: gated, first, count: own.length, blocks, set: (find) => this.setFilm(find, i, names)});
    }
  }

  /** Layer by layer: `write` gives the expression of a layer; `at` is the cell. */
  layerwise(from, to, functions, write) {
    for (let first = 0; first < to.layers; first += this.most) {
      const count = Math.min(this.most, to.layers - first);
      const lines = Array.from({length: count}, (_, i) => `out${i} = ${write(first + i)};`).join("\n  ");
      this.pass({source: `${functions}\nvoid main() {\n  ivec2 at = ivec2(gl_FragCoord.xy);\n  ${lines}\n}`, from, to, first, count});
    }
  }

  add(operation, from, to) {
    this.layerwise(from, to, "", (layer) => `texelFetch(from0, ivec3(at, ${layer}), 0) + texelFetch(from1, ivec3(at, ${layer}), 0)`);
  }

  multiply(operation, from, to) {
    const gate = "vec4 gate(vec4 x) { return 1. / (1. + exp(-x)); }";
    this.layerwise(from, to, operation.gate ? gate : "", (layer) => {
      const [a, b] = [0, 1].map((n) => `texelFetch(from${n}, ivec3(at, ${layer}), 0)`);
      return `${operation.gate ? `gate(${a})` : a} * ${b}`;
    });
  }

  pool(operation, from, to) {
    const [h0, h1] = this.program.halved;
    const mean = `vec4 mean(ivec2 at, int layer) {
  vec4 sum = vec4(0.);
  for (int p = 0; p < 2; p++) for (int q = 0; q < 2; q++)
    sum += texelFetch(from0, ivec3(at.x * ${1 + h1} + q * ${h1}, at.y * ${1 + h0} + p * ${h0}, layer), 0);
  return 0.25 * sum;
}`;
    this.layerwise(from, to, mean, (layer) => `mean(at, ${layer})`);
  }

  fold(operation, from, to, i) {
    this.folded(from, to, operation.patch, i, (k, p0, p1) => {
      const part = k % (p0 * p1), c = Math.floor(k / (p0 * p1));
      const at = `ivec3(at.x * ${p1} + ${part % p1}, at.y * ${p0} + ${Math.floor(part / p1)}, ${c >> 2})`;
      return `texelFetch(from0, ${at}, 0)[${c & 3}]`;
    });
  }

  unfold(operation, from, to, i) {
    this.folded(from, to, operation.patch, i, (c, p0, p1) => {
      const k = `${c * p0 * p1} + (at.y % ${p0}) * ${p1} + at.x % ${p1}`;
      return `number(at.x / ${p1}, at.y / ${p0}, ${k})`;
    });
  }

  /** Layers of four numbers, each read from one place; beyond the last channel of a value is zero. */
  folded(from, to, patch, i, read) {
    const [h0, h1] = this.program.halved, {channels} = this.values[i + 1], p0 = h0 ? patch : 1, p1 = h1 ? patch : 1;
    const number = "float number(int x, int y, int k) { return texelFetch(from0, ivec3(x, y, k >> 2), 0)[k & 3]; }";
    this.layerwise(from, to, number, (layer) => {
      const four = [0, 1, 2, 3].map((i) => 4 * layer + i);
      return `vec4(${four.map((k) => (k < channels ? read(k, p0, p1) : "0.")).join(", ")})`;
    });
  }

  upsample(operation, from, to) {
    const [h0, h1] = this.program.halved, {boundary} = this.program;
    if (operation.mode === "nearest") {
      this.layerwise(from, to, "", (layer) => `texelFetch(from0, ivec3(at.x >> ${h1}, at.y >> ${h0}, ${layer}), 0)`);
      return;
    }
    const [rows, cols] = this.size(from[0].level), side = (name, at, halved) => (halved ? `${name}((${at} >> 1) + (${at} & 1) * 2 - 1)` : at);
    const blend = `int ghostRow(int i) { const int n = ${rows}; return ${GHOST[boundary[0]]}; }
int ghostColumn(int i) { const int n = ${cols}; return ${GHOST[boundary[1]]}; }
vec4 read(int row, int column, int layer) {
  return row < 0 || column < 0 ? vec4(0.) : texelFetch(from0, ivec3(column, row, layer), 0);
}
vec4 blend(ivec2 at, int layer) {
  int i = at.y >> ${h0}, j = at.x >> ${h1}, i1 = ${side("ghostRow", "at.y", h0)}, j1 = ${side("ghostColumn", "at.x", h1)};
  vec4 near = mix(read(i, j, layer), read(i, j1, layer), ${h1 ? "0.25" : "0."});
  return mix(near, mix(read(i1, j, layer), read(i1, j1, layer), ${h1 ? "0.25" : "0."}), ${h0 ? "0.25" : "0."});
}`;
    this.layerwise(from, to, blend, (layer) => `blend(at, ${layer})`);
  }

  /** Value 0: the frames scaled, and what lies beside them. */
  generateInputs(to) {
    const {channels, history, points: grid, offset} = this.program, {groups} = this, [rows, cols] = this.points;
    const axis = (n) => (n === 0 ? "at.y" : "at.x");
    const write = ({kind, index, mean, std}) => {
      if (kind === "history") return `(frame(${index[0]}, ${index[1] >> 2}).${"rgba"[index[1] & 3]} - ${literal(mean)}) / ${literal(std)}`;
      if (kind === "edge") return `${axis(index[0])} == ${index[1] ? [rows, cols][index[0]] - 1 : 0} ? 1. : 0.`;
      if (kind === "coordinate") return `2. * (float(${axis(index[0])}) + ${literal(offset[index[0]])}) / ${literal(grid[index[0]])} - 1.`;
      if (kind === "scalar") return `scalars[${index[0]}]`;
      return "texelFetch(from1, ivec3(at, 0), 0).r";
    };
    const scalars = this.program.scalars.length;
    for (let first = 0; first < to.layers; first += this.most) {
      const count = Math.min(this.most, to.layers - first);
      const lines = Array.from({length: 4 * count}, (_, i) => {
        const channel = channels[4 * first + i];
        return `out${i >> 2}.${"rgba"[i & 3]} = ${channel ? write(channel) : "0."};`;
      });
      const source = `uniform int newest;
${scalars ? `uniform float scalars[${scalars}];` : ""}
ivec2 at;
vec4 frame(int k, int group) { return texelFetch(from0, ivec3(at, ((newest + 1 + k) % ${history}) * ${groups} + group), 0); }
void main() {
  at = ivec2(gl_FragCoord.xy);
  ${lines.join("\n  ")}
}`;
      const set = (find) => {
        this.gl.uniform1i(find("newest"), this.newest);
        if (scalars) this.gl.uniform1fv(find("scalars"), this.modulation.scaled);
      };
      this.pass({source, from: [this.ring, this.maskTexture], to, first, count, set, moves: true});
    }
  }

  /** prior + scale ⊙ last value + shift, zero outside of the mask. */
  generateAnswer(last) {
    const {fields, history, prior, priorWeight: w, priorTaps, scale, shift, boundary} = this.program;
    const {groups} = this, count = fields.length, [rows, cols] = this.points;
    const channel = (c) => `[${c >> 2}].${"rgba"[c & 3]}`, lines = [];
    for (let c = 0; c < count; c++) lines.push(`u${channel(c)} = ${literal(scale[c])} * v${channel(c)} + ${literal(shift[c])};`);
    if (prior === "increment") for (let g = 0; g < groups; g++) lines.push(`u[${g}] += frame(${history - 1}, ${g}, at.y, at.x);`);
    if (prior === "linear")
      for (let k = 0; k < history; k++)
        for (let c = 0; c < count; c++)
          lines.push(`u${channel(c)} += ${literal(w[k * count + c])} * frame(${k}, ${c >> 2}, at.y, at.x).${"rgba"[c & 3]};`);
    if (prior === "stencil") {
      const [t0, t1] = priorTaps;
      for (let p = 0; p < t0; p++)
        for (let q = 0; q < t1; q++)
          for (let g = 0; g < groups; g++) {
            lines.push(`x = frame(${history - 1}, ${g}, ghostRow(at.y + ${p - (t0 >> 1)}), ghostColumn(at.x + ${q - (t1 >> 1)}));`);
            for (let o = 0; o < count; o++)
              for (let c = 4 * g; c < Math.min(count, 4 * g + 4); c++)
                lines.push(`u${channel(o)} += ${literal(w[((o * count + c) * t0 + p) * t1 + q])} * x.${"rgba"[c & 3]};`);
          }
    }
    const source = `uniform int newest;
int ghostRow(int i) { const int n = ${rows}; return ${GHOST[boundary[0]]}; }
int ghostColumn(int i) { const int n = ${cols}; return ${GHOST[boundary[1]]}; }
vec4 frame(int k, int group, int row, int column) {
  if (row < 0 || column < 0) return vec4(0.);
  return texelFetch(from1, ivec3(column, row, ((newest + 1 + k) % ${history}) * ${groups} + group), 0);
}
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  vec4 x, u[${groups}], v[${groups}];
  for (int g = 0; g < ${groups}; g++) { v[g] = texelFetch(from0, ivec3(at, g), 0); u[g] = vec4(0.); }
  ${lines.join("\n  ")}
  float inside = texelFetch(from2, ivec3(at, 0), 0).r;
  ${Array.from({length: groups}, (_, g) => `out${g} = inside * u[${g}];`).join(" ")}
}`;
    const set = (find) => this.gl.uniform1i(find("newest"), this.newest);
    this.pass({source, from: [last, this.ring, this.maskTexture], to: this.answer, first: 0, count: groups, set, moves: true});
  }
}
