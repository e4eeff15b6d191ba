// SPDX-License-Identifier: 0BSD
// Classifies pictures on several threads: one blob, mapped and shared by all; an arena for each.
//
//     classify digits.mcb THREADS [--verify] < pictures      pictures: 64 bytes each; prints a digit a line
//
// Nothing reads the whole blob unless --verify says so: a network starts with the header, and its weights come from
// the disk, or from the page cache, as its layers read them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "digits.h"

namespace {

/// A file in memory, read-only: pages are read when they are used, and shared with other processes.
class Mapped {
public:
    explicit Mapped(const char *path)
    {
        const int file = open(path, O_RDONLY);
        struct stat found {};
        if (file < 0 || fstat(file, &found) != 0) {
            throw std::runtime_error(std::string("cannot read ") + path);
        }
        bytes_ = static_cast<size_t>(found.st_size);
        data_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0); // at a page: any alignment a target asks for
        close(file);
        if (data_ == MAP_FAILED) {
            throw std::runtime_error(std::string("cannot map ") + path);
        }
    }
    ~Mapped() { munmap(data_, bytes_); }
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;

    const void *data() const { return data_; }
    size_t size() const { return bytes_; }

private:
    void *data_;
    size_t bytes_;
};

void check(mcc_status status)
{
    if (status != MCC_OK) {
        throw std::runtime_error(mcc_status_text(status));
    }
}

/// A network with an arena of its own: networks that share a blob run at the same time.
class Network {
public:
    explicit Network(const Mapped &blob) : arena_(std::make_unique<digits_arena>())
    {
        check(digits_init(&net_, arena_.get(), blob.data(), blob.size()));
    }
    int classify(const unsigned char *picture)
    {
        std::copy(picture, picture + DIGITS_INPUT_IMAGE_COUNT, digits_input_image(&net_));
        check(digits_run(&net_));
        const float *scores = digits_output_scores(&net_);
        return static_cast<int>(std::max_element(scores, scores + DIGITS_OUTPUT_SCORES_COUNT) - scores);
    }

private:
    std::unique_ptr<digits_arena> arena_; // C++17: `new` keeps the alignment that the type asks for
    digits_t net_{};
};

} // namespace

int main(int argc, char **argv)
try {
    const bool verify = argc == 4 && std::string(argv[3]) == "--verify";
    if (argc != 3 && !verify) {
        std::fprintf(stderr, "usage: classify digits.mcb THREADS [--verify] < pictures\n");
        return 2;
    }
    const Mapped blob(argv[1]);
    if (verify) {
        check(mcc_blob_verify(blob.data(), blob.size()));
    }
    const size_t threads = static_cast<size_t>(std::max(1, std::atoi(argv[2])));

    std::vector<unsigned char> pictures;
    unsigned char read[4096];
    for (size_t got = 0; (got = std::fread(read, 1, sizeof read, stdin)) > 0;) {
        pictures.insert(pictures.end(), read, read + got);
    }
    const size_t count = pictures.size() / DIGITS_INPUT_IMAGE_COUNT;
    std::vector<int> answers(count);
    std::vector<std::thread> workers;
    for (size_t worker = 0; worker < threads; ++worker) {
        workers.emplace_back([&, worker] {
            Network network(blob);
            for (size_t i = worker; i < count; i += threads) {
                answers[i] = network.classify(&pictures[i * DIGITS_INPUT_IMAGE_COUNT]);
            }
        });
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    for (const int answer : answers) {
        std::printf("%d\n", answer);
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
    return 1;
}
