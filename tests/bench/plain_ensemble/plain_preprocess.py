"""Texts become rows of token ids. The plain peer: no window, no refusal, no metric."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    def initialize(self, args):
        self._tokenizer = Tokenizer.from_file(str(Path(args["model_repository"], "tokenizer.json")))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(512)

    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(request, "text").as_numpy()[0, 0].decode() for request in requests]
        responses = []
        for encoding in self._tokenizer.encode_batch_fast(texts):
            ids = np.array([encoding.ids], np.int64)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("input_ids", ids)]))
        return responses
