"""What is installed: every pinned package with the hashes of its files, and its licence written
down."""

import pytest

from assets.build.licences import TARGET
from assets.build.lock import pins, strangers
from tests.places import ROOT


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_the_lock_names_every_pin_with_hashes_and_nothing_else(path):
    lines = path.with_suffix(".lock").read_text(encoding="utf-8").split("\n")
    locked = {line.split(" ")[0]: set() for line in lines if "==" in line}
    name = ""
    for line in lines:
        name = line.split(" ")[0] if "==" in line else name
        if "--hash=sha256:" in line:
            locked[name].add(line.split(":")[1].split(" ")[0])
    assert list(locked) == [f"{name}=={version}" for name, version in pins(path)], "make lock"
    assert all(hashes and all(len(one) == 64 for one in hashes) for hashes in locked.values())


def test_a_file_that_the_lock_does_not_name_is_a_stranger():
    def report(digest):
        item = {"metadata": {"name": "torch", "version": "1.0+cpu"}}
        return {
            "install": [{**item, "download_info": {"archive_info": {"hashes": {"sha256": digest}}}}]
        }

    names = {"other": "aa", "torch": "bb", "last": "cc"}
    locked = "#\n" + "".join(
        f"{name}==1.0 \\\n    --hash=sha256:{digest}\n" for name, digest in names.items()
    )
    assert strangers(report("bb"), locked) == []
    assert [strangers(report(wrong), locked) for wrong in ("aa", "cc", "")] == [
        [f"torch 1.0+cpu ({wrong})"] for wrong in ("aa", "cc", "")
    ]
    assert strangers({"install": []}, locked) == []


def test_a_line_that_pins_nothing_is_refused(tmp_path):
    (tmp_path / "r.txt").write_text("# words\na==1.0  # why\nb>=2\n")
    with pytest.raises(ValueError, match="pins no version in: b>=2"):
        pins(tmp_path / "r.txt")


def test_the_licence_of_every_package_is_written_down():
    said = TARGET.read_text(encoding="utf-8")
    for path in ("requirements.txt", "requirements-dev.txt"):
        missing = [
            name for name, version in pins(ROOT / path) if f"| {name} | {version} | " not in said
        ]
        assert missing == [], "make lock"
