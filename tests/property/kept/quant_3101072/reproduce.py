"""quant 3101072: build. Found by `make fuzz`; finding.txt shows the network. Run it with CC=gcc."""
from pathlib import Path
import mccompile, numpy as np, onnxruntime as ort
from mccompile.run.network import Network
here = Path(__file__).parent
mccompile.compile(here / "model.onnx", here / "out", name="drawn", **{'target': 'generic', 'opt_level': 'O2'})
network = Network(here / "out", ('-O1',), emulate=True)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
session = ort.InferenceSession(here / "model.onnx", options, providers=["CPUExecutionProvider"])
data = np.load(here / "inputs.npz")
for run in sorted({key.split("/")[0] for key in data}):
    inputs = {key.split("/", 1)[1]: data[key] for key in data if key.startswith(run + "/")}
    want = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
    for name, array in network.run({n: inputs[n] for n in network.inputs}).items():
        print(f"run {run}, {name}: here\n{array}\nonnxruntime\n{want[name]}")
