// A stencil in WebAssembly, four cells and four channels at a time: what plain JavaScript lacks.
//
// `assembleKernels(strides)` writes a module with a function for every distance between cells, so
// that the inner loop has no arithmetic but multiply and add.  Fields are float32 with their
// channels side by side, padded to whole vectors of four, and carry their ghost cells.
//
//   stencil<stride>(field, rowBytes, out, outBytes, weights, bias, taps, tapCount, rows, cols, blocks)
//
// `weights` are four outputs at a time: for every block of outputs, tap and input four numbers.
"use strict";

const unsigned = (n) => {
  const bytes = [];
  do {
    bytes.push((n & 127) | (n > 127 ? 128 : 0));
    n >>>= 7;
  } while (n);
  return bytes;
};

const signed = (n) => {
  const bytes = [];
  for (;;) {
    const byte = n & 127;
    n >>= 7;
    if ((n === 0 && !(byte & 64)) || (n === -1 && byte & 64)) return [...bytes, byte];
    bytes.push(byte | 128);
  }
};

/** The instructions that the kernels are made of. */
const WASM = {
  get: (local) => [0x20, ...unsigned(local)],
  set: (local) => [0x21, ...unsigned(local)],
  number: (n) => [0x41, ...signed(n)],
  load: (offset) => [0x28, 2, ...unsigned(offset)],
  vector: (offset) => [0xfd, 0x00, 2, ...unsigned(offset)],
  splat: (offset) => [0xfd, 0x09, 2, ...unsigned(offset)],
  store: (offset) => [0xfd, 0x0b, 2, ...unsigned(offset)],
  plus: [0x6a], minus: [0x6b], times: [0x6c], less: [0x49], notLess: [0x4f], multiply: [0xfd, 0xe6, 0x01], add: [0xfd, 0xe4, 0x01],
  // do { body } while (condition)
  repeat: (body, condition) => [0x03, 0x40, ...body, ...condition, 0x0d, 0x00, 0x0b],
  when: (condition, body) => [...condition, 0x04, 0x40, ...body, 0x0b],
};

function stencilKernel(stride) {
  const {get, set, number, load, vector, splat, store, plus, minus, times, less, notLess, multiply, add, repeat, when} = WASM;
  const [field, rowBytes, out, outBytes, weights, bias, taps, tapCount, rows, cols, blocks] = Array(11).keys();
  const [left, cell, block, weight, tap, from, end, to] = Array.from({length: 8}, (_, i) => 11 + i);
  const [w, ...sums] = Array.from({length: 5}, (_, i) => 19 + i), pixel = 4 * stride;
  const grow = (local, by) => [...get(local), ...by, ...plus, ...set(local)];
  const cells = (count) => {
    const each = sums.slice(0, count);
    // Four inputs of each cell, each against the weights of four outputs.
    const inputs = [0, 1, 2, 3].flatMap((c) => [
      ...get(weight), ...vector(16 * c), ...set(w),
      ...each.flatMap((sum, k) => [...get(sum), ...get(from), ...splat(4 * c + k * pixel), ...get(w), ...multiply, ...add, ...set(sum)]),
    ]);
    const place = [...get(out), ...get(block), ...number(16), ...times, ...plus];
    return [
      ...get(weights), ...set(weight), ...number(0), ...set(block),
      ...repeat([
        ...get(bias), ...get(block), ...number(16), ...times, ...plus, ...vector(0), ...set(w),
        ...each.flatMap((sum) => [...get(w), ...set(sum)]),
        ...number(0), ...set(tap),
        ...repeat([
          ...get(cell), ...get(taps), ...get(tap), ...number(4), ...times, ...plus, ...load(0), ...plus, ...set(from),
          ...get(from), ...number(pixel), ...plus, ...set(end),
          ...repeat([...inputs, ...grow(weight, number(64)), ...grow(from, number(16))], [...get(from), ...get(end), ...less]),
          ...grow(tap, number(1)),
        ], [...get(tap), ...get(tapCount), ...less]),
        ...place, ...set(to),
        ...each.flatMap((sum) => [...get(to), ...get(sum), ...store(0), ...grow(to, get(outBytes))]),
        ...grow(block, number(1)),
      ], [...get(block), ...get(blocks), ...less]),
      ...grow(cell, number(count * pixel)),
      ...grow(out, [...get(outBytes), ...number(count), ...times]),
      ...get(left), ...number(count), ...minus, ...set(left),
    ];
  };
  const several = (count) => {
    const condition = [...get(left), ...number(count), ...notLess];
    return when(condition, repeat(cells(count), condition));
  };
  const body = repeat([
    ...get(field), ...set(cell), ...get(cols), ...set(left), ...several(4), ...several(1),
    ...grow(field, get(rowBytes)), ...get(rows), ...number(1), ...minus, ...set(rows),
  ], get(rows));
  return [2, 8, 0x7f, 5, 0x7b, ...body, 0x0b];
}

/** A module with a kernel for each stride, in its own memory: {memory, exports}. */
function assembleKernels(strides) {
  const sized = (bytes) => [...unsigned(bytes.length), ...bytes], list = (items) => [...unsigned(items.length), ...items.flat()];
  const section = (id, bytes) => [id, ...sized(bytes)], name = (text) => sized([...text].map((letter) => letter.charCodeAt(0)));
  const bytes = [
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, list([[0x60, 11, ...Array(11).fill(0x7f), 0]])),
    ...section(2, list([[...name("page"), ...name("memory"), 2, 0, 1]])),
    ...section(3, list(strides.map(() => [0]))),
    ...section(7, list(strides.map((stride, i) => [...name(`stencil${stride}`), 0, ...unsigned(i)]))),
    ...section(10, list(strides.map((stride) => sized(stencilKernel(stride))))),
  ];
  const memory = new WebAssembly.Memory({initial: 1}), module = new WebAssembly.Module(Uint8Array.from(bytes));
  return {memory, ...new WebAssembly.Instance(module, {page: {memory}}).exports};
}
