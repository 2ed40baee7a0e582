"""Our definition of EfficientNet-Lite against an independent one, and against what its weights must do."""

import warnings

import numpy as np
import pytest
import torch
from trireme_export.catalogue import CATALOGUE
from trireme_export.image_architectures import ARCHITECTURES
from trireme_export.image_golden import IMAGES
from trireme_export.image_network import ImageNetwork
from trireme_export.image_original import ImageOriginal
from trireme_export.intake import load_strictly
from trireme_export.pillow_processor import PillowProcessor
from trireme_export.weights import read_weights


@pytest.fixture(scope="module")
def weights(lite0, cache):
    return read_weights(lite0, cache)


@pytest.fixture(scope="module")
def network(weights):
    architecture = ARCHITECTURES["efficientnet_lite0"]
    network = architecture.build(1000)
    load_strictly(network, weights, architecture.tensor_name)
    return network.eval()


def test_logits_equal_those_of_the_package_efficientnet_lite_pytorch(network, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package is old: an invalid escape sequence
        package = pytest.importorskip("efficientnet_lite_pytorch")
    other = package.EfficientNet.from_name("efficientnet-lite0")
    other.load_state_dict(weights)
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        torch.testing.assert_close(network(images), other.eval()(images), rtol=0, atol=1e-5)


def test_the_graph_normalises_bytes_as_the_original_does(network):
    preprocessing = CATALOGUE["vision"].task.preprocessing
    original = ImageOriginal(network, PillowProcessor(preprocessing))
    pixels = np.stack([original.pixels(path.read_bytes()) for path in IMAGES])
    with torch.inference_mode():
        logits = ImageNetwork(network, preprocessing.normalization)(torch.from_numpy(pixels))
    np.testing.assert_allclose(logits, original.rows(pixels), atol=1e-4)


@pytest.mark.parametrize("padded_size", [(224, 224), (224, 225), (7, 6)])
def test_a_strided_convolution_pads_to_ceil_of_size_by_stride(padded_size):
    from trireme_export.efficientnet import SamePadding

    features = SamePadding(3, 2)(torch.zeros(1, 1, *padded_size))
    out = torch.nn.functional.conv2d(features, torch.zeros(1, 1, 3, 3), stride=2)
    assert out.shape[2:] == tuple(-(-size // 2) for size in padded_size)
