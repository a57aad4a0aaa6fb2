"""The tiny task of texts and its model, written down for a file of tests."""

import pytest

from tests.tracks.text_classifiers.worlds import text_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return text_world(tmp_path_factory.mktemp("world"))
