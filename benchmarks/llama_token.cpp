// Tokens of llama.cpp on one thread: for each byte on stdin one token behind `past` others, and a byte on stdout.
//
// usage: llama_token MODEL.gguf PAST

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *)
{
    if (level == GGML_LOG_LEVEL_ERROR) {
        std::fputs(text, stderr);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    const int past = std::atoi(argv[2]);
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params given = llama_model_default_params();
    given.n_gpu_layers = 0;
    llama_model *model = llama_model_load_from_file(argv[1], given);
    if (model == nullptr) {
        return 1;
    }
    llama_context_params wanted = llama_context_default_params();
    wanted.n_ctx = (uint32_t)past + 1;
    wanted.n_threads = wanted.n_threads_batch = 1;
    llama_context *context = llama_init_from_model(model, wanted);
    if (context == nullptr) {
        return 1;
    }
    std::vector<llama_token> before((size_t)past, 1);
    if (past > 0 && llama_decode(context, llama_batch_get_one(before.data(), past)) != 0) {
        return 1;
    }
    while (std::getchar() != EOF) {
        llama_token token = 1;
        llama_memory_seq_rm(llama_get_memory(context), 0, past, -1);
        if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) {
            return 1;
        }
        std::putchar('.');
        std::fflush(stdout);
    }
    return 0;
}
