"""Post-training quantisation of float networks by onnxruntime, and how much of their accuracy it costs."""
