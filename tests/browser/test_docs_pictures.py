"""README and docs show pages as they are now: pictures carry the hash of the words they show."""

from __future__ import annotations

import pytest
from PIL import Image

from browser.docs_pictures import COMMAND, KEY, PICTURES, hash_of


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_in_the_docs_says_what_the_page_says(opened, tmp_path, picture):
    page = opened(picture.make(tmp_path))
    words = picture.words(page)
    assert len(words) > 500
    with Image.open(picture.path) as image:
        assert image.size == (picture.width, picture.height)
        assert image.text.get(KEY) == hash_of(words), f"the page says something else: run {COMMAND}"
