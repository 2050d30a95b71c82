"""The page of `calipers stability`, the demo of it,
and the section in the report of an evaluation.
"""

from __future__ import annotations

import pytest

import calipers as cal
from calipers.synthetic.bags import demo_bags, write_bags
from cases import cohort_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Write a random cohort with three models."""
    folder = tmp_path_factory.mktemp("detectors")
    cohort = cohort_of("plain", seed=6, models=3, n_images=20)
    cal.write(cohort, folder / "references.json")
    for model in cohort.models:
        cal.write(cohort, folder / f"{model}.json", what=model)
    return folder


def files_of(data):
    return [
        data / name for name in ("references.json", "model-1.json", "model-2.json", "model-3.json")
    ]


def test_the_verb_ends_with_the_page(calipers, tmp_path):
    write_bags(tmp_path / "study", demo_bags(n_bags=12, n_models=3, shape=(6, 6)))
    models = [tmp_path / "study" / f"run-{k}" for k in (1, 2, 3)]
    said = calipers(
        "stability",
        *models,
        "--labels",
        tmp_path / "study" / "masks",
        "--no-ci",
        "-o",
        tmp_path / "out",
    )
    assert said.code == 0
    assert said.out.endswith(f"Open {tmp_path / 'out' / 'stability.html'}\n")
    page = (tmp_path / "out" / "stability.html").read_text()
    assert "calipers stability" in page
    assert 'id="fig-dice"' in page


def test_pictures_need_a_page(calipers, tmp_path):
    said = calipers("stability", "a", "b", "--images", tmp_path)
    assert said.code == 2
    assert "give -o DIR too" in said.err


def test_detectors_have_a_page_with_their_objects(calipers, data, tmp_path):
    references, *models = files_of(data)
    said = calipers(
        "stability", *models, "--references", references, "--no-ci", "-o", tmp_path / "out"
    )
    assert said.code == 0
    assert 'id="fig-objects-found-by"' in (tmp_path / "out" / "stability.html").read_text()


def test_the_page_of_an_evaluation_can_tell_of_it_and_tells_again(calipers, data, tmp_path):
    said = calipers(
        "evaluate",
        *files_of(data),
        "--preset",
        "rodeo",
        "--no-ci",
        "--stability",
        "-o",
        tmp_path / "out",
    )
    assert said.code == 0
    page = tmp_path / "out" / "report.html"
    assert 'id="fig-objects-found-by"' in page.read_text()
    assert calipers("report", tmp_path / "out", "--force").code == 0
    assert 'id="fig-objects-found-by"' in page.read_text()
    assert "fig-multiverse" not in page.read_text()


def test_the_section_needs_a_page_and_two_models(calipers, data):
    files = files_of(data)
    for call in (files, files[:2]):
        said = calipers("evaluate", *call, "--stability")
        assert said.code == 2
        assert "--stability adds a section to the page" in said.err


def test_the_demo_writes_maps_and_page_and_says_what_is_wrong(calipers, tmp_path):
    said = calipers("demo", "--stability", "-o", tmp_path / "demo")
    assert said.code == 0
    assert "Stable does not mean correct" in " ".join(said.out.split())
    assert (tmp_path / "demo" / "data" / "run-5" / "B001.npz").exists()
    page = (tmp_path / "demo" / "results" / "stability.html").read_text()
    assert "Do not trust these maps" in page
    assert calipers("demo", "--stability", "--maps", "-o", tmp_path / "other").code == 2
    document = calipers("demo", "--stability", "--json", "-o", tmp_path / "demo", "--force").json
    assert document["schema"] == "calipers.stability/1"
