"""The networks' stand-ins: what the official `onnxruntime` and `openvino` backends accept, run from Python.

A config that loads here loads in the official backend of the same name. Parameters that begin with `trireme.` ask for
more speed and are ignored there. The backend `aoti` is our own, with the configs of `onnxruntime`. Nothing in this
package but the `model.py` beside it knows Triton's Python API.
"""
