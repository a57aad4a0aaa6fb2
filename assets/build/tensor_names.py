"""Writes engine/models/vision/tensor_names.json anew: `python -m assets.build.tensor_names`, after a new torchvision
or architecture.

By the names of its tensors a weight file is told from most architectures without building any of them.
"""

from __future__ import annotations

import json
from importlib.metadata import version

from engine.core.files import PROJECT
from engine.models.state_dicts import names_digest, skeleton
from engine.models.vision import architectures


def written() -> dict[str, object]:
    """The digest of every architecture's names of tensors, and the torchvision that has them."""
    names = {name: names_digest(skeleton(name, 2).shapes) for name in architectures()}
    return {"torchvision": version("torchvision").split("+")[0], "names": names}


if __name__ == "__main__":
    path = PROJECT / "engine" / "models" / "vision" / "tensor_names.json"
    path.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
