"""torchvision's vision transformers: the same numbers from four linear layers, and heads that can
be cut."""

from __future__ import annotations

import torch

from engine.models.state_dicts import fitting_architectures, skeleton
from engine.models.vision import architecture_for
from engine.models.vision.torchvision_families import split, unpacked

import torchvision.models  # isort: skip  (after the torchvision guard)


def test_a_packed_attention_answers_the_same_from_its_parts():
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=3).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    images, packed = (
        torch.randn(2, 3, 32, 32),
        {name: one.clone() for name, one in model.state_dict().items()},
    )
    with torch.no_grad():
        whole = model(images)
        torch.testing.assert_close(split(model)(images), whole)
        for parameter in model.parameters():
            parameter.data.zero_()
        model.load_state_dict(unpacked(packed))
        torch.testing.assert_close(model(images), whole)
    assert (
        architecture_for("vit_b_16")
        .attentions(model)[1]
        .parts[3]
        .endswith("encoder_layer_1.self_attention.out_proj")
    )


def test_published_tensors_are_recognised():
    state = {
        name: torch.empty(shape, device="meta")
        for name, shape in skeleton("vit_b_16", 5).shapes.items()
    }
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        state[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    assert fitting_architectures(state) == ["vit_b_16"]
