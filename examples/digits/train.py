"""Train the example network on scikit-learn's bundled 8x8 digits and write it as ONNX, with its test set.

Plain numpy, about ten seconds, the same seed every time: ``python examples/digits/train.py``.
The pictures are Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI repository, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent
SEED = 2024
TEST_SHARE = 0.25
EPOCHS = 80  # widths and epochs were chosen by 4-fold cross-validation inside the training set
BATCH = 32
PEAK_RATE = 4e-3

Floats = NDArray[np.float32]


@dataclass
class Param:
    """A trained array with its gradient and Adam's two moments."""

    value: Floats
    grad: Floats = field(init=False)
    moment1: Floats = field(init=False)
    moment2: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.grad = np.zeros_like(self.value)
        self.moment1 = np.zeros_like(self.value)
        self.moment2 = np.zeros_like(self.value)


class Conv:
    """A 3x3 convolution with padding 1 and ReLU: x[N,C,H,W] -> [N,K,H/stride,W/stride]."""

    def __init__(self, rng: Generator, channels: int, kernels: int, stride: int, groups: int) -> None:
        fan_in = channels // groups * 9
        shape = (kernels, channels // groups, 3, 3)
        self.weight = Param(rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32))
        self.bias = Param(np.zeros(kernels, np.float32))
        self.stride = stride
        self.groups = groups

    def forward(self, x: Floats) -> Floats:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        s = self.stride
        n, channels, height, width = x.shape
        windows = sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::s, ::s]
        g = self.groups
        columns = windows.transpose(1, 4, 5, 0, 2, 3).reshape(g, channels // g * 9, -1)
        out = self.weight.value.reshape(g, -1, channels // g * 9) @ columns
        out = out.reshape(-1, n, height // s, width // s).transpose(1, 0, 2, 3)
        out = np.maximum(out + self.bias.value[:, None, None], 0)
        self.saved = (columns, out, padded.shape)
        return out

    def backward(self, grad: Floats) -> Floats:
        columns, out, padded_shape = self.saved
        grad = grad * (out > 0)
        n, kernels, height, width = grad.shape
        self.bias.grad = grad.sum((0, 2, 3))
        rows = grad.transpose(1, 0, 2, 3).reshape(self.groups, kernels // self.groups, -1)
        self.weight.grad = (rows @ columns.transpose(0, 2, 1)).reshape(self.weight.value.shape)
        spread = self.weight.value.reshape(self.groups, kernels // self.groups, -1).transpose(0, 2, 1) @ rows
        spread = spread.reshape(-1, 3, 3, n, height, width).transpose(1, 2, 3, 0, 4, 5)
        back = np.zeros(padded_shape, np.float32)
        s = self.stride
        for dy in range(3):
            for dx in range(3):
                back[:, :, dy : dy + s * height : s, dx : dx + s * width : s] += spread[dy, dx]
        return back[:, :, 1:-1, 1:-1]


class MaxPool2:
    """A 2x2 maximum pool with stride 2."""

    def forward(self, x: Floats) -> Floats:
        n, channels, height, width = x.shape
        tiles = x.reshape(n, channels, height // 2, 2, width // 2, 2)
        out = tiles.max((3, 5))
        mask = tiles == out[:, :, :, None, :, None]
        self.saved = mask / mask.sum((3, 5), keepdims=True)
        return out

    def backward(self, grad: Floats) -> Floats:
        spread = (self.saved * grad[:, :, :, None, :, None]).astype(np.float32)
        n, channels, height, _, width, _ = spread.shape
        return spread.reshape(n, channels, height * 2, width * 2)


class Linear:
    """A fully connected layer over the flattened picture: x[N,...] -> [N,classes]."""

    def __init__(self, rng: Generator, features: int, classes: int) -> None:
        self.weight = Param(rng.normal(0.0, np.sqrt(1.0 / features), (classes, features)).astype(np.float32))
        self.bias = Param(np.zeros(classes, np.float32))

    def forward(self, x: Floats) -> Floats:
        self.saved = (x.reshape(len(x), -1), x.shape)
        return self.saved[0] @ self.weight.value.T + self.bias.value

    def backward(self, grad: Floats) -> Floats:
        flat, shape = self.saved
        self.weight.grad = grad.T @ flat
        self.bias.grad = grad.sum(0)
        return (grad @ self.weight.value).reshape(shape)


@dataclass(frozen=True)
class Network:
    """conv(16) - conv(32, stride 2) - depthwise conv(32) - max pool - fully connected(10)."""

    conv: Conv
    conv_down: Conv
    conv_depthwise: Conv
    pool: MaxPool2
    linear: Linear

    def layers(self) -> tuple[Conv | MaxPool2 | Linear, ...]:
        return (self.conv, self.conv_down, self.conv_depthwise, self.pool, self.linear)

    def params(self) -> list[Param]:
        trained = (self.conv, self.conv_down, self.conv_depthwise, self.linear)
        return [param for layer in trained for param in (layer.weight, layer.bias)]

    def forward(self, pictures: Floats) -> Floats:
        """pictures[N,1,8,8] with values 0 to 16 -> scores[N,10]."""
        x = pictures / np.float32(16)
        for layer in self.layers():
            x = layer.forward(x)
        return x

    def backward(self, grad: Floats) -> None:
        for layer in reversed(self.layers()):
            grad = layer.backward(grad)


def new_network(rng: Generator) -> Network:
    return Network(
        Conv(rng, 1, 16, stride=1, groups=1),
        Conv(rng, 16, 32, stride=2, groups=1),
        Conv(rng, 32, 32, stride=1, groups=32),
        MaxPool2(),
        Linear(rng, 32 * 2 * 2, 10),
    )


def split(rng: Generator) -> tuple[Floats, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Training pictures and labels, test pictures and labels; the test set is never looked at in training."""
    digits = load_digits()
    pictures = digits.images.astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    order = rng.permutation(len(labels))
    count = round(len(labels) * TEST_SHARE)
    test, train = np.sort(order[:count]), order[count:]
    return pictures[train], labels[train], pictures[test], labels[test]


def shifted(rng: Generator, pictures: Floats) -> Floats:
    """Each picture moved by at most one pixel, which a small training set needs."""
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (8, 8), axis=(2, 3))
    # One pixel in about one picture of three: most digits fill all eight rows.
    dy, dx = np.clip(rng.normal(0.0, 0.5, (2, len(pictures))).round().astype(int) + 1, 0, 2)
    return np.ascontiguousarray(windows[np.arange(len(pictures)), :, dy, dx])


def loss_gradient(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """The gradient of the mean cross entropy, with labels smoothed by 0.05."""
    exp = np.exp(scores - scores.max(1, keepdims=True))
    target = np.full_like(scores, 0.005)
    target[np.arange(len(labels)), labels] += 0.95
    return ((exp / exp.sum(1, keepdims=True) - target) / len(labels)).astype(np.float32)


def adam_step(param: Param, step: int, rate: float) -> None:
    param.moment1 += np.float32(0.1) * (param.grad - param.moment1)
    param.moment2 += np.float32(0.001) * (param.grad**2 - param.moment2)
    scale = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    decay = 1e-4 * param.value if param.value.ndim > 1 else np.float32(0)
    param.value -= np.float32(scale) * (param.moment1 / (np.sqrt(param.moment2) + np.float32(1e-7)) + decay)


def train(network: Network, rng: Generator, pictures: Floats, labels: NDArray[np.int64]) -> None:
    steps_per_epoch = len(labels) // BATCH
    total = EPOCHS * steps_per_epoch
    for step in range(total):
        if step % steps_per_epoch == 0:
            order = rng.permutation(len(labels))
        first = step % steps_per_epoch * BATCH
        batch = order[first : first + BATCH]
        scores = network.forward(shifted(rng, pictures[batch]))
        network.backward(loss_gradient(scores, labels[batch]))
        rate = PEAK_RATE * 0.5 * (1 + np.cos(np.pi * step / total))
        for param in network.params():
            adam_step(param, step + 1, rate)


def to_onnx(network: Network) -> onnx.ModelProto:
    """image[N,1,8,8], values 0 to 16 -> scores[N,10]; the batch is the free symbol N."""
    constants = {"one_sixteenth": np.float32(1 / 16)}
    nodes = [helper.make_node("Mul", ["image", "one_sixteenth"], ["scaled"], name="scale")]
    at = "scaled"
    convs = {"conv1": network.conv, "conv2": network.conv_down, "depthwise": network.conv_depthwise}
    for name, conv in convs.items():
        constants |= {f"{name}.weight": conv.weight.value, f"{name}.bias": conv.bias.value}
        wires = [at, f"{name}.weight", f"{name}.bias"]
        stride = [conv.stride] * 2
        attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": stride, "group": conv.groups}
        nodes.append(helper.make_node("Conv", wires, [f"{name}.out"], name=name, **attributes))
        nodes.append(helper.make_node("Relu", [f"{name}.out"], [f"{name}.relu"], name=f"{name}/relu"))
        at = f"{name}.relu"
    constants |= {"linear.weight": network.linear.weight.value, "linear.bias": network.linear.bias.value}
    nodes += [
        helper.make_node("MaxPool", [at], ["pooled"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
        helper.make_node(
            "Gemm", ["flat", "linear.weight", "linear.bias"], ["scores"], name="linear", transB=1
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, producer_name="examples/digits", opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    rng = np.random.default_rng(SEED)
    train_pictures, train_labels, test_pictures, test_labels = split(rng)
    network = new_network(rng)
    train(network, rng, train_pictures, train_labels)
    onnx.save(to_onnx(network), HERE / "digits.onnx")
    np.save(HERE / "test_images.npy", test_pictures.astype(np.uint8))
    np.save(HERE / "test_labels.npy", test_labels.astype(np.uint8))
    hits = int((network.forward(test_pictures).argmax(1) == test_labels).sum())
    train_hits = int((network.forward(train_pictures).argmax(1) == train_labels).sum())
    print(f"training set: {train_hits}/{len(train_labels)} = {train_hits / len(train_labels):.4f}")
    print(f"test set:     {hits}/{len(test_labels)} = {hits / len(test_labels):.4f}")


if __name__ == "__main__":
    main()
