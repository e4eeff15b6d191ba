"""Train the spoken-word network of this example and write it as ONNX, with typical inputs and clips to hear.

    apt install espeak-ng && pip install torch onnx numpy && python train.py

The speech is synthetic: espeak-ng says each word in many voices, pitches and speeds; noise, loudness and the moment
at which it begins are drawn. Voices of the test set are in no training clip. That is enough for an example and no
measure of what real microphones need. About ten minutes on two cores; seeded, but another BLAS may round differently.
"""

from __future__ import annotations

import io
import subprocess
import wave
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from torch import nn

HERE = Path(__file__).resolve().parent
WORDS = ("yes", "no", "up", "down", "left", "right", "stop", "go")
OTHERS = (
    "house tree seven lamp water music table green paper window "
    "dog orange river happy cloud nine zero chair learn bird"
).split()
LABELS = (*WORDS, "(another word)", "(silence)")
SHOWN = ("yes", "stop", "left", "(another word)")
"""What the firmware hears: a clip of each."""
RATE, SAMPLES = 8000, 8000
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029")
TRAIN_VOICES = ("m1 m2 m3 m4 m5 m7 f1 f2 f4 Alex Annie Andrea Gene Hugo Iven Jacky Lee Mario Michael Steph").split()
TEST_VOICES = "m6 f3 Adam Denis Linda Ed".split()
EPOCHS, BATCH = 20, 32


def spoken(word: str, voice: str, random: Generator) -> np.ndarray:
    """A word as 8 kHz samples in [-1, 1]."""
    accent = random.choice(ACCENTS)
    pitch, speed = int(random.integers(20, 80)), int(random.integers(120, 220))
    said = subprocess.run(
        ["espeak-ng", "-v", f"{accent}+{voice}", "-p", str(pitch), "-s", str(speed), "--stdout", word],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    with wave.open(io.BytesIO(said)) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
    times = np.arange(0, len(samples) / rate, 1 / RATE)
    smooth = np.convolve(samples, np.hanning(5) / np.hanning(5).sum(), "same")  # against folding above 4 kHz
    found = np.interp(times, np.arange(len(samples)) / rate, smooth)
    loud = np.flatnonzero(np.abs(found) > 0.02)
    return found[loud[0] : loud[-1] + 1] if len(loud) else found[:1]


def placed(sound: np.ndarray, random: Generator) -> np.ndarray:
    """One second with the sound somewhere in it, at some loudness, and noise."""
    clip = np.zeros(SAMPLES)
    sound = sound[:SAMPLES]
    at = int(random.integers(0, SAMPLES - len(sound) + 1))
    clip[at : at + len(sound)] = sound * random.uniform(0.5, 1.0) / max(np.abs(sound).max(), 1e-3)
    noise = np.convolve(random.normal(0, 1, SAMPLES), np.ones(int(random.integers(1, 6))), "same")
    return np.clip(clip + noise * random.uniform(0, 0.02), -1, 1)


def sounds(voices: list[str], repeats: int, random: Generator) -> list[tuple[np.ndarray, int]]:
    """Every word by every voice, so often; other words as many together; silence."""
    made = []
    for voice in voices:
        for _ in range(repeats):
            made += [(spoken(word, voice, random), i) for i, word in enumerate(WORDS)]
            made += [(spoken(str(random.choice(OTHERS)), voice, random), len(WORDS)) for _ in range(3)]
            made.append((np.zeros(1), len(WORDS) + 1))
    return made


class Network(nn.Module):
    """Filters on samples, then separable convolutions along time; the mean over time decides."""

    def __init__(self) -> None:
        super().__init__()

        def separable(wide: int, out: int, stride: int) -> list[nn.Module]:
            depthwise = nn.Conv1d(wide, wide, 5, stride, 2, groups=wide, bias=False)
            pointwise = nn.Conv1d(wide, out, 1, bias=False)
            return [depthwise, nn.BatchNorm1d(wide), nn.ReLU(), pointwise, nn.BatchNorm1d(out), nn.ReLU()]

        self.layers = nn.Sequential(
            nn.Conv1d(1, 32, 80, 20, 30, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4),
            *separable(32, 64, 1), *separable(64, 64, 2), *separable(64, 64, 1),
            *separable(64, 96, 2), *separable(96, 96, 1),
        )
        self.mean, self.scores = nn.AdaptiveAvgPool1d(1), nn.Linear(96, len(LABELS))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        return self.scores(self.mean(self.layers(audio)).flatten(1))


def batch(made: list[tuple[np.ndarray, int]], random: Generator) -> tuple[torch.Tensor, torch.Tensor]:
    clips = np.stack([placed(sound, random) for sound, _ in made])[:, None].astype(np.float32)
    return torch.from_numpy(clips), torch.tensor([label for _, label in made])


def main() -> None:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    train, test = sounds(TRAIN_VOICES, 8, random), sounds(TEST_VOICES, 3, random)
    network = Network()
    steps = EPOCHS * (len(train) // BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, steps)
    for epoch in range(EPOCHS):
        order = random.permutation(len(train))
        for begin in range(0, len(train) - BATCH + 1, BATCH):
            clips, labels = batch([train[i] for i in order[begin : begin + BATCH]], random)
            loss = nn.functional.cross_entropy(network(clips), labels, label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {epoch}: loss {float(loss):.3f}", flush=True)
    network.eval()
    clips, labels = batch(test, random)
    right = (network(clips).argmax(1) == labels).float().mean()
    print(f"right in {float(right):.4f} of {len(labels)} clips by other voices")
    torch.onnx.export(
        network, (clips[:1],), str(HERE / "kws.onnx"), input_names=["audio"], output_names=["scores"], dynamo=False,
        opset_version=17,
    )  # fmt: skip
    typical, _ = batch([train[i] for i in random.choice(len(train), 64, replace=False)], random)
    np.savez_compressed(HERE / "typical.npz", audio=typical.numpy())
    chosen = [next(i for i in range(len(labels)) if int(labels[i]) == LABELS.index(label)) for label in SHOWN]
    (HERE / "clips.i16").write_bytes((clips[chosen, 0] * 32767).round().to(torch.int16).numpy().tobytes())



if __name__ == "__main__":
    main()
