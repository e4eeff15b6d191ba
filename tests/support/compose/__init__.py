"""Compositions: random valid ONNX networks of all operators, judged by onnxruntime.

``python -m tests.support.compose --count 3000 --seed 0`` runs many; tests/property/test_compositions.py a few.
"""
