"""ONNX to graph IR: dims bound, every node in its newest form, shapes known."""
