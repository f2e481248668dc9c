"""Runs an exported step in onnxruntime, without JAX: python examples/onnx_step.py step.onnx samples.csv"""

import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
state = np.zeros(session.get_inputs()[1].shape, np.float32)  # any values: the first sample starts a new stream
for step, sample in enumerate(np.loadtxt(sys.argv[2], np.float32, delimiter=",", ndmin=2)):
    given = {"sample": sample[None], "state": state, "begin": np.array([step == 0])}
    output, state = session.run(None, given)
    print(output[0].tolist())
