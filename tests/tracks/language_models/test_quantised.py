"""Checkpoints with really quantised weights beside the model they were made from, and whose
rounding ours is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from engine.models.load_language_model import load_language_model
from engine.store.runs import Store
from engine.tracks.language_models.compressions._linear import rounded
from engine.tracks.language_models.run import run_audit
from tests.builders import refused
from tests.tiny import build, save_tokenizer
from tests.tracks.language_models.worlds import world_request

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("words_judged")]
NEEDS = "needs {}: pip install -r requirements-quantised.txt"

EVEN_FIRST = (0, 2, 4, 6, 1, 3, 5, 7)
# Kernels of PyTorch: the others are compiled from C++ when first used.
LAID_OUT = {
    "gptq": {"desc_act": False, "sym": True, "checkpoint_format": "gptq", "backend": "gptq_torch"},
    "awq": {
        "zero_point": True,
        "version": "gemm",
        "modules_to_not_convert": ["lm_head"],
        "backend": "torch_awq",
    },
}


def packed(base: Path, target: Path, bits: int) -> None:
    """Linear layers by compressed-tensors: 8 bits with a scale per row, or 4 bits with a scale per
    16 neighbours."""
    kinds = pytest.importorskip(
        "compressed_tensors.quantization", reason=NEEDS.format("compressed-tensors")
    )
    compressors = pytest.importorskip("compressed_tensors.compressors")
    model, group = (
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        16 if bits == 4 else None,
    )
    how = kinds.QuantizationArgs(
        num_bits=bits, strategy="group" if group else "channel", group_size=group
    )
    scheme = kinds.QuantizationScheme(targets=["Linear"], weights=how)
    status = kinds.QuantizationStatus.FROZEN
    asked = kinds.QuantizationConfig(
        config_groups={"all": scheme},
        ignore=["lm_head"],
        format="pack-quantized",
        quantization_status=status,
    )
    kinds.apply_quantization_config(model, asked)
    for part in model.modules():
        if hasattr(part, "weight_scale"):
            rows = part.weight.data.reshape(part.weight.shape[0], -1, group or part.weight.shape[1])
            largest = rows.abs().amax(-1) / (2 ** (bits - 1) - 1)
            part.weight_scale.data.copy_(largest.reshape(part.weight_scale.shape))
    compressor = compressors.ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(target)
    compressor.update_config(target)


def by_hand(base: Path, target: Path, how: str, group: int = 32) -> None:
    """A checkpoint of 4 bits as GPTQ or AWQ lay it out, rounded to the nearest: what a loader has
    to read, without the package that chooses the roundings."""
    held = {}
    for name, weight in load_file(base / "model.safetensors").items():
        if not name.endswith("proj.weight"):
            held[name] = weight
            continue
        stem, columns = name.removesuffix("weight"), weight.T.reshape(-1, group, weight.shape[0])
        scale = (columns.abs().amax(1) / 7).half()
        steps = ((columns / scale.float()[:, None]).round().clamp(-8, 7) + 8).reshape(
            weight.T.shape
        )
        zeros = torch.full(scale.shape, 8)
        if how == "gptq":  # eight rows to a word, zeros one less
            held[stem + "qweight"] = _words(steps.T).T.contiguous()
            held[stem + "qzeros"] = _words(zeros - 1)
            held[stem + "g_idx"] = (torch.arange(weight.shape[1]) // group).to(torch.int32)
        else:  # eight columns to a word, even ones first
            held[stem + "qweight"], held[stem + "qzeros"] = (
                _words(steps, EVEN_FIRST),
                _words(zeros, EVEN_FIRST),
            )
        held[stem + "scales"] = scale
    target.mkdir(parents=True)
    save_file(held, target / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((base / "config.json").read_text())
    told = {"quant_method": how, "bits": 4, "group_size": group} | LAID_OUT[how]
    (target / "config.json").write_text(json.dumps({**config, "quantization_config": told}))


def _words(numbers: torch.Tensor, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Eight numbers of 4 bits to an int32, along the last axis."""
    eight = numbers.reshape(*numbers.shape[:-1], -1, 8)[..., list(order)].to(torch.int64)
    word = (eight << (4 * torch.arange(8))).sum(-1)
    return torch.where(word >= 2**31, word - 2**32, word).to(torch.int32)


def by_torchao(base: Path, target: Path, bits: int) -> None:
    """Linear layers by torchao: 8 bits with a scale per row, or 4 bits with a scale per 16
    neighbours."""
    kinds = pytest.importorskip("torchao.quantization", reason=NEEDS.format("torchao"))
    from torchao.quantization.granularity import PerGroup
    from transformers import TorchAoConfig

    fewer = {"weight_dtype": torch.int4, "granularity": PerGroup(16)}
    how = kinds.Int8WeightOnlyConfig() if bits == 8 else kinds.IntxWeightOnlyConfig(**fewer)
    asked = TorchAoConfig(how)
    AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, quantization_config=asked
    ).save_pretrained(target)


def quantised(folder: Path, name: str, make: Callable[[Path, Path, int], None], bits: int) -> Path:
    base = folder / "model"
    if not base.exists():
        build("llama_grouped", base)
    make(base, folder / name, bits)
    save_tokenizer(folder / name)
    return folder / name


@pytest.mark.parametrize("make", [packed, by_torchao])
def test_quantised_checkpoints_are_measured_beside_their_model(make, tmp_path, words_judged):
    others = [quantised(tmp_path, f"bits{bits}", make, bits) for bits in (8, 4)]
    request = world_request(
        tmp_path,
        methods=("ppl_only", "int8"),
        sparsities=(0.0, 0.3),
        axes=("nationality",),
        seeds=1,
        controls=None,
        against=tuple(map(str, others)),
    )
    run = run_audit(request, Store(tmp_path / "store"))
    variants = run.table("variants").set_index("method")
    results = run.table("results").query("metric == 'divergence'").set_index("variant")["value"]
    moved = [
        results[variants.loc[name, "variant"]]
        for name in ("int8", "against-bits8", "against-bits4")
    ]
    assert 0 < moved[1] < 0.1 * moved[2] and moved[0] == pytest.approx(moved[1], rel=1.0)
    saved = variants.loc[["against-bits8", "against-bits4"], "sparsity"]
    assert (saved > 0.2).all()
    assert set(run.table("generations")["variant"]) >= set(variants["variant"])


@pytest.mark.parametrize("make", [packed, by_torchao])
def test_quantised_checkpoints_that_lack_a_tensor_are_refused(make, tmp_path):
    whole = quantised(tmp_path, "whole", make, 8)
    assert load_language_model(whole, device="cpu", as_arm=True).n_heads == 4
    part = Path(shutil.copytree(whole, tmp_path / "part")) / "model.safetensors"
    kept = {
        name: one
        for name, one in load_file(part).items()
        if "layers.1.self_attn.q_proj" not in name
    }
    save_file(kept, part, metadata=_metadata(part))
    told = refused(load_language_model, part.parent, device="cpu", as_arm=True)
    assert "layers.1.self_attn.q_proj" in " ".join(told)


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return {**(file.metadata() or {})}


@pytest.mark.parametrize("how", ["gptq", "awq"])
def test_gptq_and_awq_are_read_as_the_numbers_they_stand_for(how, tmp_path):
    pytest.importorskip("gptqmodel", reason="needs gptqmodel (docs/language_models.md says how)")
    base = build(
        "llama_grouped", tmp_path / "model", hidden_size=64, intermediate_size=128, head_dim=16
    )
    by_hand(base, tmp_path / how, how)
    save_tokenizer(tmp_path / how)
    read = load_language_model(tmp_path / how, device="cpu", as_arm=True).model
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    for name, weight in model.named_parameters():
        if name.endswith("proj.weight"):
            weight.data = rounded(weight.data, 4, 32)
    ids = torch.arange(4, 40)[None]
    with torch.no_grad():
        theirs, ours = read(ids).logits.float(), model(ids).logits
    assert (theirs - ours).abs().max() < 0.02 * ours.abs().max()


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32)])
def test_our_rounding_is_torchaos_on_the_same_grid(bits, group):
    """To the bit with our scales; torchao's own scales are largest / 127.5 or / 7.5, and clip the
    largest number."""
    made = pytest.importorskip(
        "torchao.quantization.quant_primitives", reason=NEEDS.format("torchao")
    )
    weight = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
    most = 2 ** (bits - 1) - 1
    scale = (weight.reshape(200, -1, group).abs().amax(-1) / most).half().float()
    grid = ((1, group), scale, torch.zeros_like(scale, dtype=torch.int64))
    steps = made.quantize_affine(weight, *grid, torch.int8, -most, most)
    theirs = made.dequantize_affine(
        steps, *grid, torch.int8, -most, most, output_dtype=torch.float32
    )
    ours = rounded(weight, bits, group if group < 64 else 0)
    assert torch.equal(theirs, ours)
    own = made.choose_qparams_affine(
        weight, made.MappingType.SYMMETRIC, (1, group), torch.int8, -most - 1, most
    )[0]
    wider = weight.reshape(200, -1, group).abs().amax(-1) / own.reshape(scale.shape)
    assert wider.mean().item() == pytest.approx(most + 0.5)
