"""What the tests of corpus loaders share."""

from __future__ import annotations

import json

import pytest

from aeg.errors import DataError


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def error_of(loader, root):
    with pytest.raises(DataError) as caught:
        loader.load(root)
    assert "\n" not in str(caught.value)
    return str(caught.value)
