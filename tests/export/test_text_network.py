"""The exported graph against the encoder run as its authors run it."""

import numpy as np
import pytest
import torch
from trireme_export.text_encoder import build_encoder
from trireme_export.text_network import Pooling, TextNetwork, read_segments
from trireme_export.text_original import TextOriginal
from trireme_export.weights import read_weights

TEXTS = [[2, 5, 6, 7, 3], [2, 9, 3], [2, 3], [2, 4, 10, 11, 12, 13, 14, 3], [15]]


@pytest.fixture
def encoders(tiny, tmp_path):
    config, weights = tiny.read_json("config.json"), read_weights(tiny, tmp_path)
    return build_encoder(config, weights, "eager"), build_encoder(config, weights, None)


def padded(rows, numbers, *, left=False):
    length = max(map(len, rows)) + 2
    ids, mask = torch.zeros(len(rows), length, dtype=torch.int64), torch.zeros(len(rows), length, dtype=torch.int64)
    for row, (own, segment) in enumerate(zip(rows, numbers, strict=True)):
        place = slice(length - len(own), length) if left else slice(0, len(own))
        ids[row, place], mask[row, place] = torch.tensor(own), torch.tensor(segment)
    return ids, mask


@pytest.mark.parametrize("pooling", list(Pooling))
@pytest.mark.parametrize("left", [False, True])
def test_a_padded_row_gives_what_its_text_gives_alone(encoders, pooling, left):
    ids, mask = padded(TEXTS, [[1] * len(text) for text in TEXTS], left=left)
    with torch.inference_mode():
        rows = TextNetwork(encoders[0], pooling)(ids, mask)
    np.testing.assert_allclose(rows[:, 0], TextOriginal(encoders[1], pooling).rows(TEXTS), atol=2e-5)


@pytest.mark.parametrize("pooling", list(Pooling))
def test_packed_texts_give_what_each_gives_alone(encoders, pooling):
    packed = [token for text in TEXTS for token in text]
    numbers = [number for number, text in enumerate(TEXTS, start=1) for _ in text]
    with torch.inference_mode():
        rows = TextNetwork(encoders[0], pooling)(*padded([packed], [numbers]))
    assert rows.shape == (1, len(TEXTS), 32)
    np.testing.assert_allclose(rows[0], TextOriginal(encoders[1], pooling).rows(TEXTS), atol=2e-5)


def test_rows_of_segments_that_a_text_does_not_have_are_zero_even_with_a_head(encoders):
    head = torch.nn.Linear(32, 3)
    ids, mask = padded([TEXTS[0] + TEXTS[1], TEXTS[3]], [[1] * 5 + [2] * 3, [1] * 8])
    with torch.inference_mode():
        logits = TextNetwork(encoders[0], Pooling.MEAN, head)(ids, mask)
    assert logits.shape == (2, 2, 3)
    assert not logits[1, 1].any()
    expected = TextOriginal(encoders[1], Pooling.MEAN, head).rows([TEXTS[0], TEXTS[1], TEXTS[3]])
    np.testing.assert_allclose(logits[[0, 0, 1], [0, 1, 0]], expected, atol=2e-5)


def test_a_row_of_nothing_but_padding_is_zero_and_not_nan(encoders):
    with torch.inference_mode():
        rows = TextNetwork(encoders[0], Pooling.MEAN)(
            torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64)
        )
    assert rows.shape == (1, 1, 32)
    assert not rows.any()


def test_positions_start_anew_in_every_segment_and_wherever_it_lies():
    segments = read_segments(torch.tensor([[0, 0, 2, 2, 2, 1, 1, 0]]))
    assert segments.positions.tolist() == [[0, 0, 0, 1, 2, 0, 1, 0]]
    assert segments.membership.sum(dim=2).tolist() == [[2, 3]]


def test_tokens_see_only_their_own_segment():
    bias = read_segments(torch.tensor([[1, 2, 2, 0]])).attention_bias[0, 0]
    assert (bias == 0).tolist() == [
        [True, False, False, False],
        [False, True, True, False],
        [False, True, True, False],
        [False, False, False, True],
    ]
