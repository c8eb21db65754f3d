/* Roll a model out in C: raw float32 frames in, raw float32 frames out.
 *
 *     fino export diffusion-reaction-2d --to c --out fino.c
 *     cc -O3 -march=native rollout.c fino.c -lm -o rollout
 *     ./rollout history.bin frames.bin 64 64 100
 *
 * history.bin holds (HISTORY, FIELDS, height, width), as numpy's tofile writes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fino.h"

enum { HISTORY = 10, FIELDS = 2 }; /* of this model: see the head of fino.h */

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: %s history.bin frames.bin height width steps\n", words[0]);
        return 2;
    }
    const int height = atoi(words[3]), width = atoi(words[4]), steps = atoi(words[5]);
    const size_t frame = (size_t)FIELDS * (size_t)height * (size_t)width;
    const size_t bytes = fino_workspace(height, width);
    if (bytes == 0) {
        fprintf(stderr, "this model does not run on %d x %d cells\n", height, width);
        return 2;
    }
    float *history = malloc(HISTORY * frame * sizeof(float));
    float *next = malloc(frame * sizeof(float));
    void *workspace = malloc(bytes);
    FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
    if (!history || !next || !workspace || !in || !out ||
        fread(history, sizeof(float), HISTORY * frame, in) != HISTORY * frame) {
        fprintf(stderr, "cannot read %s or write %s\n", words[1], words[2]);
        return 1;
    }
    /* What is unlike the training data is said once; what is no number any more ends it. */
    char line[200];
    const float *newest = history + (HISTORY - 1) * frame;
    int told = fino_check(newest, newest - frame, height, width, NULL, NULL, line, sizeof line);
    if (told)
        fprintf(stderr, "warning: at the start %s\n", line);
    for (int step = 0; step < steps && told != fino_diverged; step++) {
        fino_step(history, next, height, width, NULL, NULL, workspace);
        const int found = fino_check(next, newest, height, width, NULL, NULL, line, sizeof line);
        if (found > told) {
            fprintf(stderr, "warning: in step %d %s\n", step + 1, line);
            told = found;
        }
        memmove(history, history + frame, (HISTORY - 1) * frame * sizeof(float));
        memcpy(history + (HISTORY - 1) * frame, next, frame * sizeof(float));
        fwrite(next, sizeof(float), frame, out);
    }
    fclose(in);
    fclose(out);
    free(history);
    free(next);
    free(workspace);
    return 0;
}
