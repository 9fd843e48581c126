"""Models of your own for Commonbrain: over HTTP, or ONNX models in a folder."""
