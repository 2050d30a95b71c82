"""The page and the folder of stability: a verdict in plain words, every number, whole or absent,
nothing run.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.errors import InputError
from calipers.stability.objects import object_stability
from calipers.stability.page import methods, trust, with_display_names
from calipers.stability.read import read_bags
from calipers.synthetic.bags import demo_bags, write_bags
from cases import cohort_of

FIGURES = ("auc", "bags", "called", "dice", "images", "models", "pairs", "scores", "sweep")
FILES = {
    "stability.html",
    "stability.json",
    "stability.csv",
    "bags.csv",
    *(f"stability-{n}.svg" for n in FIGURES),
}


@pytest.fixture(scope="module")
def families():
    made = {
        kind: demo_bags(kind, n_bags=24, n_models=3, shape=(8, 8))
        for kind in ("stable-wrong", "unstable")
    }
    return {kind: cal.stability(bags, replicates=100) for kind, bags in made.items()}


@pytest.fixture(scope="module")
def found(families):
    return families["unstable"]


class Ids(HTMLParser):
    """All ids and all links within a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.ids += [facts["id"]] if facts.get("id") else []
        self.links += [facts["href"][1:]] if (facts.get("href") or "").startswith("#") else []


def page_of(found, tmp_path, **options) -> str:
    return found.report(tmp_path / "page.html", **options).read_text()


def test_unstable_models_are_not_trusted(found):
    assert trust(found).startswith(
        "Do not trust a single map: these three models mark different places"
    )
    assert "Nor do they mark what the reference marks" in trust(found)


def test_models_that_agree_on_the_wrong_place_are_not_trusted_either(families):
    said = trust(families["stable-wrong"])
    assert said.startswith("Do not trust these maps: the three models ")
    assert said.endswith("Stable does not mean correct.")


def test_the_same_maps_repeat_and_without_a_reference_nobody_knows_whether_they_are_right():
    same = np.tile(np.random.default_rng(0).random((1, 12, 9)), (3, 1, 1))
    said = trust(cal.stability(same, ci=False))
    assert said.startswith("Any one map represents the others")
    assert said.endswith("whether they are the right places.")
    right = cal.stability(same, np.ones(12), instances=(same[0] >= 0.5), ci=False)
    assert trust(right).endswith("They are mostly where the reference is (mean DICE 1.00).")


def test_models_that_mark_nearly_everything_at_random_are_not_trusted():
    said = trust(
        cal.stability(np.random.default_rng(1).random((4, 30, 100)), threshold=0.05, replicates=200)
    )
    assert (
        said == "Do not trust a single map: these four models are not shown to agree beyond chance."
    )


def test_maps_that_mark_nothing_say_so():
    assert trust(cal.stability(np.zeros((2, 5, 4)), ci=False)).startswith(
        "There is nothing to trust"
    )


def test_the_folder_is_complete_and_its_numbers_are_those_of_the_result(found, tmp_path):
    page = found.save(tmp_path / "out", command=["calipers", "stability"])
    assert page == tmp_path / "out" / "stability.html"
    assert {file.name for file in page.parent.iterdir()} == FILES
    document = json.loads((page.parent / "stability.json").read_text())
    assert document["schema"] == "calipers.stability/1"
    assert document["verdict"] == trust(found)
    assert document["command"] == ["calipers", "stability"]
    with (page.parent / "stability.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    read = [float(row["value"]) if row["value"] else None for row in rows]
    assert read == [row["value"] for row in document["rows"]]


def test_every_image_has_a_row_with_scores_dice_and_what_every_model_marks(found, tmp_path):
    found.save(tmp_path / "out")
    with (tmp_path / "out" / "bags.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["bag"] for row in rows] == list(found.ids)
    assert [float(row["APJ"]) for row in rows] == found.per_bag("APJ").tolist()
    mean, sd = found.localized.per_bag("DICE")
    assert [float(row["DICE mean"]) for row in rows] == mean.tolist()
    assert [float(row["DICE SD"]) for row in rows] == sd.tolist()
    ones = found.evidence.ones[:, found.evidence.at(0.5)]
    assert [int(row["marked by run-2"]) for row in rows] == ones[:, 1].tolist()
    assert sum(int(row["undefined pairs"]) for row in rows) == found.undefined("APJ").pairs


def test_the_page_has_all_figures_and_every_link_leads_somewhere(found, tmp_path):
    page = page_of(found, tmp_path)
    seen = Ids(page)
    assert len(seen.ids) == len(set(seen.ids))
    assert set(seen.links) <= set(seen.ids)
    assert {f"fig-{name}" for name in FIGURES if name != "bags"} <= set(seen.ids)
    assert sum(name.startswith("fig-bag-") and name.count("-") == 3 for name in seen.ids) == 8
    for sentence in found.sentences():
        assert sentence.replace("'", "&#x27;") in page


def test_the_paradox_of_kappa_is_told_among_what_misleads(tmp_path):
    maps = np.zeros((3, 12, 200))
    for k in range(3):
        maps[k, :, [0, 2 * k + 1, 2 * k + 2]] = 1  # one place shared, two of their own, 195 empty
    odd = cal.stability(maps, ci=False)
    assert "kappa-paradox" in odd.flags
    page = page_of(odd, tmp_path)
    assert "What may mislead" in page
    assert "APJ and AJ may mislead" in page


def test_methods_state_models_images_threshold_and_how_undefined_pairs_were_taken(found):
    said = " ".join(methods(found))
    assert "3 models that were trained alike on 12 positive images" in said
    assert "each of the 3 unordered pairs" in said
    assert "were left out and counted" in said
    assert "100 bootstrap replicates, resampled by patient (n = 6" in said
    assert "2 degrees of freedom" in said


def test_an_earlier_result_is_replaced_and_other_files_stay(found, tmp_path):
    folder = tmp_path / "out"
    found.save(folder)
    (folder / "mine.txt").write_text("stays")
    with pytest.raises(InputError, match="output-exists"):
        found.save(folder)
    plain = cal.stability(np.random.default_rng(0).random((2, 6, 9)), ci=False)
    plain.save(folder, force=True)
    left = {"stability-auc.svg", "stability-dice.svg"}
    assert {file.name for file in folder.iterdir()} == (FILES - left) | {"mine.txt"}


def test_results_never_go_among_the_maps(tmp_path):
    write_bags(tmp_path, demo_bags(n_bags=6, n_models=2, shape=(4, 4)))
    found = cal.stability(read_bags([tmp_path / "run-1", tmp_path / "run-2"]), ci=False)
    with pytest.raises(InputError, match="output-in-input"):
        found.save(tmp_path / "run-1", force=True)


def test_a_map_that_is_gone_is_told_and_the_numbers_stand(tmp_path):
    write_bags(tmp_path, demo_bags(n_bags=6, n_models=2, shape=(4, 4), share_positive=1.0))
    found = cal.stability(read_bags([tmp_path / "run-1", tmp_path / "run-2"]), ci=False)
    (tmp_path / "run-2" / "B002.npz").unlink()
    page = page_of(found, tmp_path)
    assert "B002: the map could not be read again" in page


def test_names_are_text_and_nothing_else(tmp_path):
    hostile = ["<b>bold", "x" * 5000, "\u202eturned", "=1+1"]
    maps = np.random.default_rng(0).random((4, 7, 9))
    found = cal.stability(maps, models=hostile, ids=[f"<i>{k}" for k in range(7)], ci=False)
    page = found.save(tmp_path / "out").read_text()
    assert "<b>bold" not in page
    assert "<i>0" not in page
    assert "x" * 300 not in page
    assert "\u202e" not in page
    assert with_display_names(found).models[1].startswith("xxx")
    assert not any(
        line.startswith("=") for line in (tmp_path / "out" / "bags.csv").read_text().split(",")
    )


def test_pictures_lie_below_the_maps(found, tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in found.ids:
        image.fromarray(np.full((40, 80), 90, np.uint8)).save(folder / f"{name}.png")
    (folder / f"{found.ids[int(found.ranked('APJ')[0])]}.png").write_bytes(b"broken")
    page = page_of(found, tmp_path, images=folder)
    assert page.count("<image ") == 7
    assert "a picture could not be read" in page
    assert "12 of 12 images have a picture" in page
    assert str(folder) not in page


def test_detectors_are_told_object_by_object(found, tmp_path):
    objects = object_stability(cohort_of("plain", 4, n_images=40, models=3), replicates=100)
    page = page_of(found, tmp_path, objects=objects)
    assert "Can these models be trusted?" in page
    assert 'id="fig-objects-found-by"' in page
    assert "The most disputed images" in page


def test_a_notebook_shows_the_verdict_and_the_scores(found):
    shown = found._repr_html_()
    assert "Do not trust a single map" in shown
    assert "called-by-all" in shown


def test_a_result_without_its_maps_has_a_page_without_them(found, tmp_path):
    page = page_of(replace(found, source=None), tmp_path)
    assert "fig-bag-" not in page
    assert 'id="fig-pairs"' in page


def test_an_evaluation_tells_of_stability_only_when_asked(tmp_path: Path):
    ev = cal.evaluate(cohort_of("plain", 4, n_images=30, models=3), "rodeo", ci=False)
    assert 'id="stability"' not in ev.report(tmp_path / "a.html").read_text()
    page = ev.report(tmp_path / "b.html", stability=True).read_text()
    assert 'id="stability"' in page
    assert 'id="fig-objects-found-by"' in page
