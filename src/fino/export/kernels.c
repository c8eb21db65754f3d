//: vectors
/* ---- Vectors ------------------------------------------------------------------------------
 * `lanes` is as many numbers as one instruction takes.  With GCC and Clang it is a vector type;
 * elsewhere, or with -DLANES=1, a plain float, and the same code is ordinary C99.
 */
#ifndef LANES
#if defined(__GNUC__) && defined(__AVX512F__)
#define LANES 16
#elif defined(__GNUC__) && defined(__AVX__)
#define LANES 8
#elif defined(__GNUC__)
#define LANES 4
#else
#define LANES 1
#endif
#endif

#if LANES > 1
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#else
typedef float lanes;
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* Channels in memory are padded to whole vectors of the widest kind. */
enum { PAD = 16 };

/* A register block is CELLS cells by WIDTH outputs; its sums never leave the registers. */
#if LANES == 16
enum { CELLS = 16, FEW = 4, WIDTH = LANES };
#define EACH_CELL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define EACH_OF_FEW(X) X(0) X(1) X(2) X(3)
#define START(p) lanes a##p = *(const lanes *)(start + p * start_step);
#define WEIGHTS const lanes w = *(const lanes *)weight;
#define ADD(p) a##p += w * u[p * cell + k];
#define STORE(p) *(lanes *)(out + p * out_step) = a##p;
#else
enum { CELLS = 6, FEW = 2, WIDTH = LANES > 1 ? 2 * LANES : 2 };
#define EACH_CELL(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH_OF_FEW(X) X(0) X(1)
#define START(p)                                            \
    lanes a##p = *(const lanes *)(start + p * start_step); \
    lanes b##p = *(const lanes *)(start + p * start_step + LANES);
#define WEIGHTS \
    const lanes w = *(const lanes *)weight, v = *(const lanes *)(weight + LANES);
#define ADD(p)                  \
    a##p += w * u[p * cell + k]; \
    b##p += v * u[p * cell + k];
#define STORE(p)                              \
    *(lanes *)(out + p * out_step) = a##p;    \
    *(lanes *)(out + p * out_step + LANES) = b##p;
#endif
#define ONE_CELL(X) X(0)

/* out(p) = start(p) + Σ weight · in(p), for neighbouring cells p and WIDTH outputs. */
#define BLOCK(NAME, EACH)                                                                       \
    INLINE void NAME(const float *in, const ptrdiff_t cell, const ptrdiff_t *offset, int runs,  \
                     int length, const float *weight, int outputs, const float *start,          \
                     ptrdiff_t start_step, float *out, ptrdiff_t out_step)                      \
    {                                                                                           \
        EACH(START)                                                                             \
        for (int r = 0; r < runs; r++) {                                                        \
            const float *u = in + offset[r];                                                    \
            for (int k = 0; k < length; k++, weight += outputs) {                               \
                WEIGHTS                                                                         \
                EACH(ADD)                                                                       \
            }                                                                                   \
        }                                                                                       \
        EACH(STORE)                                                                             \
    }
BLOCK(block, EACH_CELL)
BLOCK(small_block, EACH_OF_FEW)
BLOCK(single_block, ONE_CELL)

/* The same for all outputs, a multiple of PAD, and for `cells` = CELLS, FEW or 1.  The step from
 * cell to cell in memory is a constant in each case, so that it becomes part of an instruction. */
#define FOR_CELL(C)                                                                            \
    case C:                                                                                    \
        for (int o = 0; o < outputs; o += WIDTH) {                                             \
            if (cells == CELLS)                                                                \
                block(in, C, offset, runs, length, weight + o, outputs, start + o, start_step, \
                      out + o, out_step);                                                      \
            else if (cells == FEW)                                                             \
                small_block(in, C, offset, runs, length, weight + o, outputs, start + o,       \
                            start_step, out + o, out_step);                                    \
            else                                                                               \
                single_block(in, C, offset, runs, length, weight + o, outputs, start + o,      \
                             start_step, out + o, out_step);                                   \
        }                                                                                      \
        break;
static void multiply(int cells, const float *in, ptrdiff_t cell, const ptrdiff_t *offset,
                     int runs, int length, const float *weight, int outputs,
                     const float *start, ptrdiff_t start_step, float *out, ptrdiff_t out_step)
{
    switch (cell) {
        EACH_CELL_STEP(FOR_CELL)
    }
}

/* The cells of a row are taken in blocks; the last one begins earlier where a row is no multiple
 * of CELLS, and short rows are taken in small blocks. */
INLINE int block_at(int *x, int n)
{
    if (n - *x >= CELLS)
        return CELLS;
    if (n >= CELLS) {
        *x = n - CELLS;
        return CELLS;
    }
    return n - *x >= FEW ? FEW : 1;
}

//: fields
/* ---- Fields -------------------------------------------------------------------------------
 * A field lies in memory cell by cell: the channels of a cell, padded, then the next cell of the
 * row.  It has ghost cells around it, which hold what lies beyond the edge.  Fewer than three
 * axes are the last ones: a row is n[2] cells.
 */
enum boundary { PERIODIC, DIRICHLET, NEUMANN, REFLECT };
static const enum boundary BOUNDARY[3] = {AXES};

typedef struct {
    float *data;                /* the first cell inside */
    int n[3], ghost[3];
    ptrdiff_t cell, row, plane; /* steps in memory */
} field;

/* Where a field lies in the workspace; fields that are not needed at once share a slot. */
typedef struct {
    int level, channels, ghost[3], slot; /* channels padded */
} place;

static float *cell_at(const field *f, int z, int y, int x)
{
    return f->data + z * f->plane + y * f->row + x * f->cell;
}

/* Which cell of an axis lies at i, inside or beyond the edge; −1 where there is zero. */
static int cell_beyond(int i, int n, enum boundary boundary)
{
    if (i >= 0 && i < n)
        return i;
    switch (boundary) {
    case PERIODIC:
        return i < 0 ? i + n : i - n;
    case NEUMANN:
        return i < 0 ? 0 : n - 1;
    case REFLECT:
        return i < 0 ? -i : 2 * (n - 1) - i;
    default:
        return -1;
    }
}

static void copy_or_zero(float *to, const float *from, ptrdiff_t size)
{
    if (from)
        memcpy(to, from, (size_t)size * sizeof(float));
    else
        memset(to, 0, (size_t)size * sizeof(float));
}

/* The ghost cells of slab s: a row, or in three dimensions a plane of rows. */
static void fill_slab(const field *f, int s)
{
    const int z = DIMS == 3 ? s : 0, first = DIMS == 3 ? 0 : s, last = DIMS == 3 ? f->n[1] : s + 1;
    for (int y = first; y < last; y++)
        for (int g = 1; g <= f->ghost[2]; g++)
            for (int high = 0; high < 2; high++) {
                const int x = high ? f->n[2] - 1 + g : -g;
                const int from = cell_beyond(x, f->n[2], BOUNDARY[2]);
                copy_or_zero(cell_at(f, z, y, x), from < 0 ? NULL : cell_at(f, z, y, from),
                             f->cell);
            }
    if (DIMS < 3)
        return;
    for (int g = 1; g <= f->ghost[1]; g++)
        for (int high = 0; high < 2; high++) {
            const int y = high ? f->n[1] - 1 + g : -g, x = -f->ghost[2];
            const int from = cell_beyond(y, f->n[1], BOUNDARY[1]);
            copy_or_zero(cell_at(f, z, y, x), from < 0 ? NULL : cell_at(f, z, from, x), f->row);
        }
}

enum { SLABS = DIMS == 3 ? 0 : 1 }; /* the axis that slabs are counted along */

/* The ghost slabs, after the ghost cells of all slabs. */
static void fill_ends(const field *f)
{
    const int n = f->n[SLABS], y = DIMS == 3 ? -f->ghost[1] : 0, x = -f->ghost[2];
    const ptrdiff_t size = DIMS == 3 ? f->plane : f->row, begin = y * f->row + x * f->cell;
    for (int g = 1; g <= f->ghost[SLABS]; g++)
        for (int high = 0; high < 2; high++) {
            const int s = high ? n - 1 + g : -g, from = cell_beyond(s, n, BOUNDARY[SLABS]);
            copy_or_zero(f->data + begin + s * size,
                         from < 0 ? NULL : f->data + begin + from * size, size);
        }
}

static void fill_ghosts(const field *f)
{
    for (int s = 0; s < f->n[SLABS]; s++)
        fill_slab(f, s);
    fill_ends(f);
}

/* Rows of slab s: from *first to before *last along axis 1, in plane *z. */
INLINE void rows_of(const field *f, int s, int *z, int *first, int *last)
{
    *z = DIMS == 3 ? s : 0;
    *first = DIMS == 3 ? 0 : s;
    *last = DIMS == 3 ? f->n[1] : s + 1;
}

//: activations
/* ---- Activations --------------------------------------------------------------------------
 * Polynomials that an ordinary compiler turns into vector instructions.
 */
enum activation { NONE, RELU, GELU, SILU, TANH };

//: exponential
/* exp(x) to 1.4e-7 of it; x is kept within ±87. */
INLINE float exponential(float x)
{
    const float nearest = 12582912.0f; /* 1.5 · 2²³: adding it rounds to a whole number */
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float shifted = x * 1.44269504f + nearest, n = shifted - nearest;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* x − n ln 2, |r| ≤ ln 2 / 2 */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits); /* its low bits are n */
    bits = (bits << 23) + 0x3f800000u;    /* 2ⁿ */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

INLINE float sigmoid(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}

//: gelu
/* x Φ(x) to 1e-6, with Φ(x) − ½ = x q(x²) by a Chebyshev expansion in x² up to |x| = 5.4. */
INLINE float gelu(float x)
{
    float z = x < -5.4f ? -5.4f : x;
    z = z > 5.4f ? 5.4f : z;
    const float t = z * z * (2.0f / (5.4f * 5.4f)) - 1.0f;
GELU_POLYNOMIAL    return x * (0.5f + z * sum);
}

//: activate
static void activate(enum activation kind, float *u, int size)
{
    switch (kind) {
ACTIVATION_CASES
    default:
        break;
    }
}

//: stencil
/* ---- y = φ(w ∗ u + b) ----------------------------------------------------------------------*/
typedef struct {
    int inputs, outputs; /* outputs padded */
    int radius[3], apart;
    enum activation activation;
    const float *weight, *bias; /* [tap][input][output], [output] */
} stencil;

/* What the taps read, as runs of numbers that lie one after another. */
typedef struct {
    int count, length;
    ptrdiff_t offset[MOST_TAPS];
} runs;

static void find_runs(runs *r, const stencil *op, const field *in)
{
    const int *radius = op->radius, whole = op->apart == 1 && in->cell == op->inputs;
    const int taps = 2 * radius[2] + 1, step = op->apart;
    r->count = 0;
    r->length = whole ? taps * op->inputs : op->inputs;
    for (int z = -radius[0]; z <= radius[0]; z++)
        for (int y = -radius[1]; y <= radius[1]; y++)
            for (int x = 0; x < (whole ? 1 : taps); x++)
                r->offset[r->count++] =
                    step * (z * in->plane + y * in->row + (x - radius[2]) * in->cell);
}

static void stencil_slab(const stencil *op, const runs *r, const field *in, const field *out,
                         int s)
{
    int z, first, last;
    rows_of(out, s, &z, &first, &last);
    for (int y = first; y < last; y++)
        for (int x = 0, cells; x < out->n[2]; x += cells) {
            cells = block_at(&x, out->n[2]);
            float *to = cell_at(out, z, y, x);
            multiply(cells, cell_at(in, z, y, x), in->cell, r->offset, r->count, r->length,
                     op->weight, op->outputs, op->bias, 0, to, out->cell);
            activate(op->activation, to, cells * op->outputs);
        }
    fill_slab(out, s);
}

//: run_stencil
static void run_stencil(const stencil *op, const field *in, const field *out)
{
    runs r;
    find_runs(&r, op, in);
    for (int s = 0; s < out->n[SLABS]; s++)
        stencil_slab(op, &r, in, out, s);
    fill_ends(out);
}

//: euler
/* ---- B(u) = φ(W_p ∗ (u + Δt ∂ₜU)): a FINO block -------------------------------------------
 * Stencil, gate, fuse and Euler step run on one block of cells at a time, and the projection of
 * a slab follows as soon as its neighbours are there, while they are in the cache.
 */
typedef struct {
    stencil stencil;               /* to `features` outputs */
    int features, channels;        /* channels padded */
    const float *gate, *gate_bias; /* [feature][feature]; NULL without a gate */
    const float *fuse;             /* [feature][channel]; contains Δt */
} euler;

/* What the scalars of a step do to it: S ← scale S + shift, other biases of the gate, and Δt. */
typedef struct {
    float scale[MOST_FEATURES], shift[MOST_FEATURES], gate_bias[MOST_FEATURES], dt;
} modulation;

static void euler_slab(const euler *op, const modulation *m, const runs *r, const field *in,
                       const field *out, int s)
{
    static const ptrdiff_t here = 0;
    const int f = op->stencil.outputs;
    float stencil[CELLS * MOST_FEATURES], gate[CELLS * MOST_FEATURES];
    int z, first, last;
    rows_of(out, s, &z, &first, &last);
    for (int y = first; y < last; y++)
        for (int x = 0, cells; x < out->n[2]; x += cells) {
            cells = block_at(&x, out->n[2]);
            const float *u = cell_at(in, z, y, x);
            multiply(cells, u, in->cell, r->offset, r->count, r->length, op->stencil.weight, f,
                     op->stencil.bias, 0, stencil, f);
            if (m)
                for (int p = 0; p < cells; p++)
                    for (int i = 0; i < f; i++)
                        stencil[p * f + i] = stencil[p * f + i] * m->scale[i] + m->shift[i];
            float *gated = stencil;
            if (op->gate) {
                multiply(cells, stencil, f, &here, 1, op->features, op->gate, f,
                         m ? m->gate_bias : op->gate_bias, 0, gate, f);
                for (int i = 0; i < cells * f; i++)
                    gate[i] = sigmoid(gate[i]) * stencil[i];
                gated = gate;
            }
            if (m)
                for (int i = 0; i < cells * f; i++)
                    gated[i] *= m->dt;
            multiply(cells, gated, f, &here, 1, op->features, op->fuse, op->channels, u, in->cell,
                     cell_at(out, z, y, x), out->cell);
        }
    fill_slab(out, s);
}

static void run_block(const euler *op, const modulation *m, const stencil *project,
                      const field *in, const field *stepped, const field *out)
{
    runs around, beside;
    find_runs(&around, &op->stencil, in);
    find_runs(&beside, project, stepped);
    const int n = out->n[SLABS], reach = project->radius[SLABS];
    for (int s = 0; s < n; s++) {
        euler_slab(op, m, &around, in, stepped, s);
        if (s - reach >= reach)
            stencil_slab(project, &beside, stepped, out, s - reach);
    }
    fill_ends(stepped);
    for (int s = 0; s < n; s++)
        if (s < reach || s >= n - reach)
            stencil_slab(project, &beside, stepped, out, s);
    fill_ends(out);
}

//: modulate
/* ---- FiLM: what the scalars of a step do to an Euler step -----------------------------------*/
static void linear(const float *weight, const float *bias, int outputs, int inputs,
                   const float *in, float *out)
{
    for (int o = 0; o < outputs; o++) {
        out[o] = bias[o];
        for (int i = 0; i < inputs; i++)
            out[o] += weight[o * inputs + i] * in[i];
    }
}

static void modulate(modulation *m, const euler *op, const float *weight, const float *bias,
                     int learned, float raw, const float *embedded)
{
    const int f = op->features, padded = op->stencil.outputs;
    float change[3 * MOST_FEATURES + 1];
    linear(weight, bias, 3 * f + 1, EMBEDDED, embedded, change);
    for (int i = 0; i < padded; i++) {
        m->scale[i] = i < f ? 1.0f + change[i] : 0.0f;
        m->shift[i] = i < f ? change[f + i] : 0.0f;
        m->gate_bias[i] = i < f ? op->gate_bias[i] + change[2 * f + i] : 0.0f;
    }
    const float x = raw + change[3 * f];
    m->dt = !learned ? 1.0f : x > 20.0f ? x : log1pf(expf(x));
}

//: pool
/* ---- The average of two neighbours along every axis ----------------------------------------*/
static void run_pool(const field *in, const field *out)
{
    const int across = DIMS > 2, down = DIMS > 1;
    const float share = 1.0f / (1 << DIMS);
    for (int z = 0; z < out->n[0]; z++)
        for (int y = 0; y < out->n[1]; y++)
            for (int x = 0; x < out->n[2]; x++) {
                float *to = cell_at(out, z, y, x);
                memset(to, 0, (size_t)out->cell * sizeof(float));
                for (int dz = 0; dz <= across; dz++)
                    for (int dy = 0; dy <= down; dy++) {
                        const int fine_z = across ? 2 * z + dz : z, fine_y = down ? 2 * y + dy : y;
                        const float *from = cell_at(in, fine_z, fine_y, 2 * x);
                        for (int c = 0; c < out->cell; c++)
                            to[c] += from[c] + from[in->cell + c];
                    }
                for (int c = 0; c < out->cell; c++)
                    to[c] *= share;
            }
    fill_ghosts(out);
}

//: upsample_add
/* ---- Each coarse cell again, and the skip ---------------------------------------------------*/
static void run_upsample_add(const field *in, const field *skip, const field *out)
{
    const int across = DIMS > 2, down = DIMS > 1;
    for (int z = 0; z < out->n[0]; z++)
        for (int y = 0; y < out->n[1]; y++)
            for (int x = 0; x < out->n[2]; x++) {
                const float *coarse = cell_at(in, z >> across, y >> down, x >> 1);
                const float *fine = cell_at(skip, z, y, x);
                float *to = cell_at(out, z, y, x);
                for (int c = 0; c < out->cell; c++)
                    to[c] = coarse[c] + fine[c];
            }
    fill_ghosts(out);
}

//: upsample_linear
/* ---- Linear interpolation between the centres of coarse cells -------------------------------*/
static void run_upsample_linear(const field *in, const field *out)
{
    const int across = DIMS > 2, down = DIMS > 1;
    for (int z = 0; z < out->n[0]; z++)
        for (int y = 0; y < out->n[1]; y++)
            for (int x = 0; x < out->n[2]; x++) {
                const float *here = cell_at(in, z >> across, y >> down, x >> 1);
                const ptrdiff_t along = x & 1 ? in->cell : -in->cell;
                const ptrdiff_t below = !down ? 0 : y & 1 ? in->row : -in->row;
                const ptrdiff_t behind = !across ? 0 : z & 1 ? in->plane : -in->plane;
                float *to = cell_at(out, z, y, x);
                memset(to, 0, (size_t)out->cell * sizeof(float));
                for (int dz = 0; dz <= across; dz++)
                    for (int dy = 0; dy <= down; dy++) {
                        const float *near = here + dz * behind + dy * below;
                        const float share = (!across ? 1.0f : dz ? 0.25f : 0.75f) *
                                            (!down ? 1.0f : dy ? 0.25f : 0.75f);
                        for (int c = 0; c < out->cell; c++)
                            to[c] += share * (0.75f * near[c] + 0.25f * near[along + c]);
                    }
            }
    fill_ghosts(out);
}

//: combine
/* ---- The sum or the product of two fields ---------------------------------------------------*/
enum combination { SUM, PRODUCT, GATED };

static void run_combine(enum combination kind, const field *a, const field *b, const field *out)
{
    for (int z = 0; z < out->n[0]; z++)
        for (int y = 0; y < out->n[1]; y++)
            for (int x = 0; x < out->n[2]; x++) {
                const float *one = cell_at(a, z, y, x), *two = cell_at(b, z, y, x);
                float *to = cell_at(out, z, y, x);
                for (int c = 0; c < out->cell; c++)
                    to[c] = kind == SUM       ? one[c] + two[c]
                            : kind == PRODUCT ? one[c] * two[c]
                                              : GATED_VALUE;
            }
    fill_ghosts(out);
}

//: inputs
/* ---- What goes in: the channels of value 0, (source − mean) / std ---------------------------*/
enum source { PLANE, EDGE, COORDINATE, SCALAR };

typedef struct {
    enum source source;
    int number, end; /* which axis and end, or which scalar */
    float mean, std;
} channel;

static float value_at(const channel *k, const int place[3], const int n[3], const float *scalars)
{
    switch (k->source) {
POSITION_CASES
    default:
        return scalars[k->number];
    }
}

static void gather(const field *to, const channel *channels, int count, const float *const *planes,
                   const float *scalars)
{
    const int *n = to->n;
    const ptrdiff_t cell = to->cell;
    for (int z = 0; z < n[0]; z++)
        for (int y = 0; y < n[1]; y++) {
            float *row = cell_at(to, z, y, 0);
            const ptrdiff_t at = ((ptrdiff_t)z * n[1] + y) * n[2];
            for (int c = 0; c < count; c++) {
                const float mean = channels[c].mean, factor = 1.0f / channels[c].std;
                if (planes[c])
                    for (int x = 0; x < n[2]; x++)
                        row[x * cell + c] = (planes[c][at + x] - mean) * factor;
                else
                    for (int x = 0; x < n[2]; x++) {
                        const int place[3] = {z, y, x};
                        row[x * cell + c] = value_at(&channels[c], place, n, scalars);
                    }
            }
            for (int x = 0; x < n[2]; x++)
                for (ptrdiff_t c = count; c < cell; c++)
                    row[x * cell + c] = 0.0f;
        }
    fill_ghosts(to);
}

//: newest
/* The newest frame as a field, for the linear prior. */
static void gather_newest(const field *to, const float *frame)
{
    const int *n = to->n;
    const ptrdiff_t cells = (ptrdiff_t)n[0] * n[1] * n[2];
    for (int z = 0; z < n[0]; z++)
        for (int y = 0; y < n[1]; y++)
            for (int x = 0; x < n[2]; x++) {
                float *here = cell_at(to, z, y, x);
                memset(here, 0, (size_t)to->cell * sizeof(float));
                for (int c = 0; c < FIELDS; c++)
                    here[c] = frame[c * cells + ((ptrdiff_t)z * n[1] + y) * n[2] + x];
            }
    fill_ghosts(to);
}

//: walls
/* ---- Masks: cells outside of the domain hold what lies at its walls -------------------------*/
//: walls-dirichlet
static void extend(float *to, const float *from, const float *mask, const int n[3], float outside,
                   float *scratch)
{
    (void)outside, (void)scratch;
    const ptrdiff_t cells = (ptrdiff_t)n[0] * n[1] * n[2];
    for (ptrdiff_t i = 0; i < cells; i++)
        to[i] = from[i] * mask[i];
}

//: walls-neumann
/* Continues a plane by one cell into the mask: the mean of the neighbours that are inside. */
static void continue_plane(float *to, float *inside_after, const float *from, const float *inside,
                           const int n[3])
{
    for (int z = 0; z < n[0]; z++)
        for (int y = 0; y < n[1]; y++)
            for (int x = 0; x < n[2]; x++) {
                const int place[3] = {z, y, x};
                const ptrdiff_t here = ((ptrdiff_t)z * n[1] + y) * n[2] + x;
                float total = 0.0f, count = 0.0f;
                for (int axis = 3 - DIMS; axis < 3; axis++)
                    for (int step = -1; step < 2; step += 2) {
                        int at[3] = {z, y, x};
                        at[axis] = cell_beyond(place[axis] + step, n[axis], BOUNDARY[axis]);
                        if (at[axis] < 0)
                            continue;
                        const ptrdiff_t near = ((ptrdiff_t)at[0] * n[1] + at[1]) * n[2] + at[2];
                        total += from[near] * inside[near];
                        count += inside[near];
                    }
                const int is_near = inside[here] == 0.0f && count > 0.0f;
                to[here] = is_near ? total / (count > 1.0f ? count : 1.0f) : from[here];
                inside_after[here] = is_near ? 1.0f : inside[here];
            }
}

static void extend(float *to, const float *from, const float *mask, const int n[3], float outside,
                   float *scratch)
{
    const ptrdiff_t cells = (ptrdiff_t)n[0] * n[1] * n[2];
    float *once = scratch, *inside = scratch + cells, *ignored = inside + cells;
    for (ptrdiff_t i = 0; i < cells; i++)
        to[i] = mask[i] > 0.0f ? from[i] : outside;
    continue_plane(once, inside, to, mask, n);
    continue_plane(to, ignored, once, inside, n);
}

//: layout
/* ---- Where the fields lie in the workspace --------------------------------------------------*/
static ptrdiff_t shape_field(field *f, const place *where, const int n[3])
{
    for (int axis = 0; axis < 3; axis++) {
        f->n[axis] = axis < 3 - DIMS ? 1 : n[axis] >> where->level;
        f->ghost[axis] = where->ghost[axis];
    }
    f->cell = where->channels;
    f->row = (f->n[2] + 2 * f->ghost[2]) * f->cell;
    f->plane = (f->n[1] + 2 * f->ghost[1]) * f->row;
    return (f->n[0] + 2 * f->ghost[0]) * f->plane;
}

/* Lays out all fields from `memory` on; how many numbers they take. */
static ptrdiff_t lay_out(field *fields, const int n[3], float *memory)
{
    ptrdiff_t used = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        ptrdiff_t largest = 0;
        for (int i = 0; i < VALUES; i++)
            if (PLACES[i].slot == slot) {
                field *f = &fields[i];
                const ptrdiff_t size = shape_field(f, &PLACES[i], n);
                f->data = memory ? memory + used + f->ghost[0] * f->plane + f->ghost[1] * f->row +
                                       f->ghost[2] * f->cell
                                 : NULL;
                largest = size > largest ? size : largest;
            }
        used += largest;
    }
    return used;
}
