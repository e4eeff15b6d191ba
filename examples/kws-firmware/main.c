/* SPDX-License-Identifier: 0BSD */
/* Listens to each clip in flash and says which word it hears. */
#include <stdint.h>
#include <string.h>

#include "board.h"
#include "kws.h"

extern const int16_t clips[], clips_end[];

static const char *const labels[KWS_OUTPUT_SCORES_COUNT] = {
    "yes", "no", "up", "down", "left", "right", "stop", "go", "(another word)", "(silence)",
};

/* The arena stays out of kws.c: compilers that see both may drop calls that seem to have no effect. */
MCC_PLACE_ARENA static kws_arena arena;

static int loudest(const float *scores)
{
    int best = 0;

    for (int i = 1; i < KWS_OUTPUT_SCORES_COUNT; ++i) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return best;
}

int main(void)
{
    kws_t net;
    const mcc_status st = kws_init(&net, &arena, kws_blob, sizeof(kws_blob));

    if (st != MCC_OK) {
        board_write(mcc_status_text(st));
        return 1;
    }
    for (const int16_t *clip = clips; clip < clips_end; clip += KWS_INPUT_AUDIO_COUNT) {
        memcpy(kws_input_audio(&net), clip, KWS_INPUT_AUDIO_COUNT * sizeof(*clip));
        if (kws_run(&net) != MCC_OK) {
            return 1;
        }
        board_write("heard: ");
        board_write(labels[loudest(kws_output_scores(&net))]);
        board_write("\n");
    }
    return 0;
}
