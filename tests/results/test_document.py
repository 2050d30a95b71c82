"""What every result can do is made once, by `Document`."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.results.document import Document, linked
from calipers.results.estimate import Estimate
from evaluated import evaluated_demo
from source_trees import nodes_of

GIVEN_ONCE = {
    "as_dict",
    "to_json",
    "to_frame",
    "figure",
    "plot",
    "report",
    "save",
    "_repr_html_",
    "__repr__",
}
MODULES = (
    "calipers.agreement.agreement",
    "calipers.evaluation.saved",
    "calipers.monitors.result",
    "calipers.regression.logistic",
    "calipers.sensitivity.result",
    "calipers.sensitivity.sweep",
    "calipers.stability.analyse",
    "calipers.stability.objects_result",
    "calipers.studies.framework",
)


def documents() -> list[type[Document]]:
    for module in MODULES:
        __import__(module)
    return sorted(Document.__subclasses__(), key=lambda kind: kind.__name__)


RESULTS = [kind for kind in documents() if kind.__module__.startswith("calipers.")]


@dataclass(frozen=True, repr=False)
class Plain(Document):
    """A result without a schema, figures or a page."""

    rows: tuple[dict[str, int], ...] = ({"a": 1}, {"a": 2})

    def _content(self):
        return {"rows": self._records()}


def test_all_results_are_documents() -> None:
    names = {kind.__name__ for kind in RESULTS}
    assert {
        "Agreement",
        "Comparison",
        "Evaluation",
        "LogisticModel",
        "MixedModel",
        "MonitorEvaluation",
        "Multiverse",
        "ObjectStability",
        "Ranking",
        "StabilityResult",
        "StabilityTable",
        "StudyResult",
        "Sweep",
    } <= names


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_a_result_repeats_nothing_of_the_base(kind: type[Document]) -> None:
    assert not GIVEN_ONCE & set(vars(kind))


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_what_a_result_names_exists(kind: type[Document]) -> None:
    for link in (kind.FIGURES, kind.PAGE, kind.FOLDER, kind.NOTEBOOK):
        if link:
            assert linked(link) is not None


def test_nobody_else_makes_frames_or_documents() -> None:
    source = Path(cal.__file__).parent
    users = []
    for file in source.rglob("*.py"):
        for node in nodes_of(file, ast.FunctionDef):
            if node.name in ("to_json", "to_frame", "plot"):
                users.append(file.relative_to(source).as_posix())
    assert set(users) == {"results/document.py"}


def test_a_plain_result_has_rows_and_json_only() -> None:
    plain = Plain()
    assert json.loads(plain.to_json()) == {"rows": [{"a": 1}, {"a": 2}]}
    assert plain._repr_html_() is None
    with pytest.raises(cal.UsageError, match="Plain has no figures"):
        plain.figure("froc")
    with pytest.raises(cal.UsageError, match="Plain has no page"):
        plain.report("page.html")
    with pytest.raises(cal.UsageError, match="Plain has no folder"):
        plain.save("folder")


def test_rows_become_a_frame() -> None:
    pytest.importorskip("pandas")
    assert Plain().to_frame()["a"].tolist() == [1, 2]


def test_options_that_a_page_does_not_take_are_refused(tmp_path: Path) -> None:
    ev = evaluated_demo("overview", ci=False)
    with pytest.raises(cal.UsageError, match=r"the page takes images, .*, not 'image'"):
        ev.report(tmp_path / "page.html", image="folder")
    with pytest.raises(cal.UsageError, match=r"the folder takes force, .*, not 'forced'"):
        ev.save(tmp_path / "folder", forced=True)
    with pytest.raises(cal.UsageError, match="the figure 'froc' takes models, not 'model'"):
        ev.figure("froc", model="mislabels")
    assert not list(tmp_path.iterdir())


def test_comparisons_and_rankings_have_figures() -> None:
    ev = evaluated_demo("overview")
    comparison = ev.compare("mislabels", "overpredicts", metrics=["AP@0.5"])
    assert (
        comparison.figure().title
        == ev.figure("differences", a="mislabels", b="overpredicts", metrics=["AP@0.5"]).title
    )
    assert ev.rank("AP@0.5").figure().title == ev.figure("ranking", metric="AP@0.5").title


# what JSON calls each of these: low, high, n_units, p_adjusted, test, standard_error
OTHER_WORDS = {"ci_low", "ci_high", "n_clusters", "p_holm", "p_value", "p_method", "se", "std_err"}


def test_the_same_thing_has_the_same_key_in_every_schema() -> None:
    keys = []
    for file in Path(cal.__file__).parent.rglob("*.py"):
        for node in nodes_of(file, ast.Dict):
            keys += [key.value for key in node.keys if isinstance(key, ast.Constant)]
    assert not OTHER_WORDS & set(keys)


def test_one_image_is_one_image() -> None:
    nan = float("nan")
    one = Estimate(0.5, nan, nan, 0.95, "none", "image", 1, 1, 1, 1, nan, 0, "one_unit")
    assert str(one).endswith("n = 1 image, 1 reference")


def test_a_result_is_one_line_where_python_shows_it() -> None:
    evaluation = evaluated_demo("overview")
    models = ["mislabels", "misses-small"]
    results = {
        "Evaluation of mislabels, overpredicts, misses-small: 11 metrics of": evaluation,
        "Comparison of mislabels, misses-small: 1 difference": evaluation.compare(
            *models, metrics=["F1@0.5"]
        ),
        "Ranking of overpredicts, misses-small, mislabels: 3 places": evaluation.rank("AP@0.5"),
        "ErrorTable: ": evaluation.errors(),
        "Scope: 120 images": cal.scope_scores(cal.demo_cohort(), model="mislabels"),
        "Sweep of mislabels, overpredicts, misses-small: 6 rows": cal.sweep(
            cal.demo_cohort(), ["AP@0.5"], over={"threshold": [0.3, 0.5]}, ci=False
        ),
        "Plain: 2 rows": Plain(),
    }
    for beginning, result in results.items():
        line = repr(result)
        assert line.startswith(f"<{beginning}")
        assert len(line) < 160


def test_many_models_do_not_make_the_line_long() -> None:
    class Crowded(Plain):
        models = tuple(f"m{k}" for k in range(30))

    assert repr(Crowded()) == "<Crowded of m0, m1, m2, m3, m4 and 25 more: 2 rows>"


def test_print_shows_the_first_table() -> None:
    evaluation = evaluated_demo("overview")
    assert str(evaluation) == str(evaluation.tables()[0])
    assert str(Plain()) == repr(Plain())


def test_results_can_be_compared_copied_and_stored_by_python() -> None:
    """Arrays in them have no one answer to ==: it raised numpy's ValueError."""
    evaluation = evaluated_demo("overview")
    maps = np.random.default_rng(0).random((2, 6, 16))
    samples = [(plane.reshape(4, 4), plane.reshape(4, 4) > 0.5) for plane in maps[0]]
    results = (
        evaluation,
        evaluation.rank("AP@0.5"),
        evaluation.errors(),
        cal.scope_scores(cal.demo_cohort(), model="mislabels"),
        cal.stability(maps, ci=False),
        cal.evaluate_maps(samples, ci=False),
        cal.evaluate_maps(tuple({"map": a, "labels": b, "x": "y"} for a, b in samples), ci=False),
    )
    for result in results:
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
            assert again == result
            assert again.to_json() == result.to_json()
        assert result not in ["", None, *(other for other in results if other is not result)]
    cohort = cal.demo_cohort()
    assert cohort == cohort
    assert cohort in {cohort: 1}
    assert (cohort == cohort.take(np.arange(3))) is False
    assert (cohort.references == cohort.take(np.arange(3)).references) is False


def test_samples_are_loaded_again_from_a_stored_evaluation_of_maps() -> None:
    scores = np.random.default_rng(0).random((3, 4, 4))
    samples = [
        {"map": one, "labels": one > 0.5, "part": "ab"[k % 2]} for k, one in enumerate(scores)
    ]
    evaluation = pickle.loads(pickle.dumps(cal.evaluate_maps(samples, ci=False)))
    np.testing.assert_array_equal(evaluation.load_sample(2).maps["model"], scores[2])
