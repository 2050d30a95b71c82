"""A folder as one input: what is listed, hashed, read and refused; which reader gets it."""

from __future__ import annotations

import os

import pytest

import calipers as cal
from annotation_cases import EMPTY_VOC, IMAGENET, VOC, labelme, picture, put, yolo_data
from calipers.errors import InputError
from calipers.io import source
from calipers.io.source import InputFolder, model_name, open_folder, open_input


def refused(*args, **options) -> InputError:
    with pytest.raises(InputError) as caught:
        cal.read(*args, **options)
    return caught.value


def test_a_folder_lists_its_files_by_name_and_hides_hidden_ones(tmp_path) -> None:
    folder = put(tmp_path, {"b.xml": VOC, "a/c.xml": VOC, ".x.xml": "", "a/.DS_Store": "x"})
    opened = open_folder(folder)
    assert isinstance(opened, InputFolder)
    assert list(opened.files) == ["a/c.xml", "b.xml"]
    assert opened.size == 2 * len(VOC)
    assert opened.ending(".xml") == ["a/c.xml", "b.xml"]
    assert bytes(opened.open("b.xml").data).decode() == VOC
    assert opened.open("b.xml").file.endswith("/b.xml")


def test_the_hash_covers_names_and_contents(tmp_path) -> None:
    def digest(name: str, files: dict[str, str]) -> str:
        return open_folder(put(tmp_path / name, files)).sha256

    one = digest("one", {"a.txt": "1", "b.txt": "2"})
    assert one == digest("same", {"b.txt": "2", "a.txt": "1"})
    others = [
        digest("content", {"a.txt": "1", "b.txt": "3"}),
        digest("swapped", {"a.txt": "2", "b.txt": "1"}),
        digest("name", {"a.txt": "1", "c.txt": "2"}),
        digest("more", {"a.txt": "1", "b.txt": "2", "c.png": "12"}),
        digest("longer", {"a.txt": "1", "b.txt": "2", "c.png": "123"}),
        digest("deeper", {"a.txt": "1", "d/b.txt": "2"}),
    ]
    assert len({one, *others}) == len(others) + 1


def test_links_out_of_the_folder_are_left_out_and_noted(tmp_path) -> None:
    outside = put(tmp_path / "secret", {"s.xml": IMAGENET})
    folder = put(tmp_path / "data", {"a.xml": VOC})
    (folder / "s.xml").symlink_to(outside / "s.xml")
    (folder / "t").symlink_to(outside)
    (folder / "again").symlink_to(folder)
    (folder / "nothing.xml").symlink_to(folder / "missing.xml")
    os.mkfifo(folder / "pipe.xml")
    cohort = cal.read(folder)
    assert cohort.images.ids == ("a",)
    assert "2 links lead out of the folder and are not followed" in cohort.intake.notes[0]


def test_limits(tmp_path, monkeypatch) -> None:
    folder = put(tmp_path, {"a.xml": VOC, "b.xml": VOC, "c.xml": VOC})
    monkeypatch.setattr(source, "MOST_ANNOTATION_BYTES", 100)
    assert refused(folder).rule == "too-large"
    monkeypatch.undo()
    monkeypatch.setattr(source.list_files, "__kwdefaults__", {"most": 2, "holds": "files"})
    assert refused(folder).rule == "too-large"


def test_names_that_are_no_text_are_refused(tmp_path) -> None:
    try:
        (tmp_path / os.fsdecode(b"a\xff.xml")).write_text(VOC)
    except OSError:
        pytest.skip("the file system has no such names")
    assert refused(tmp_path).rule == "encoding"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_not_skipped(tmp_path) -> None:
    folder = put(tmp_path, {"a.xml": VOC, "closed/b.xml": VOC})
    (folder / "closed").chmod(0)
    try:
        assert refused(folder).rule == "not-readable"
    finally:
        (folder / "closed").chmod(0o755)


def test_byte_order_marks_in_a_folder_are_honoured_and_noted(tmp_path) -> None:
    text = VOC.replace("<annotation>", '<?xml version="1.0" encoding="utf-16"?><annotation>')
    folder = put(tmp_path, {"a.xml": text.encode("utf-16"), "b.xml": VOC})
    cohort = cal.read(folder)
    assert cohort.images.ids == ("a", "b")
    assert any("UTF-16" in note for note in cohort.intake.notes)


def test_a_folder_of_no_format_says_which_there_are(tmp_path) -> None:
    error = refused(put(tmp_path / "x", {"refs.json": "{}"}))
    assert error.rule == "not-a-file"
    for name in ("voc", "yolo", "labelme"):
        assert name in error.hint
    (tmp_path / "x" / "a.xml").symlink_to(put(tmp_path / "o", {"a.xml": VOC}) / "a.xml")
    assert "1 links lead out" in refused(tmp_path / "x").value
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").rule == "not-a-file"


def test_formats_of_files_refuse_folders_and_the_other_way_round(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    assert refused(folder, format="coco").rule == "not-a-file"
    assert refused(tmp_path / "y" / "labels" / "a.txt", format="yolo").rule == "not-a-folder"
    assert refused(tmp_path / "y" / "labels" / "a.txt").rule != "not-a-folder"


def test_the_named_format_of_a_folder_leaves_predictions_in_a_file_alone(tmp_path) -> None:
    folder = yolo_data(tmp_path / "y")
    table = tmp_path / "p.csv"
    table.write_text("image,class,x0,y0,x1,y1,score\na,polyp,40,30,60,50,0.9\n")
    assert len(cal.read(folder, table, format="yolo").models["p"]) == 1


def test_folders_are_told_apart(tmp_path) -> None:
    assert cal.sniff(put(tmp_path / "v", {"x/a.xml": VOC})).format == "voc"
    assert cal.sniff(put(tmp_path / "l", {"a.json": labelme()})).format == "labelme"
    assert cal.sniff(yolo_data(tmp_path / "y")).format == "yolo"
    # The text files of a VOC data set list images, and are no labels.
    mixed = {"Annotations/000001.xml": VOC, "ImageSets/Main/test.txt": "000001\n"}
    assert cal.sniff(put(tmp_path / "d", mixed)).format == "voc"
    assert refused(put(tmp_path / "t", {"a.txt": "one two three four five"})).rule == "not-a-file"


def test_an_intake_counts_the_records_of_all_files(tmp_path) -> None:
    folder = put(tmp_path, {"a.xml": VOC, "b.xml": VOC, "e.xml": EMPTY_VOC})
    account = cal.read(folder).intake.files[0]
    assert (account.file, account.format, account.read, account.used) == (
        str(folder),
        "voc",
        4,
        4,
    )
    assert account.bytes == 2 * len(VOC) + len(EMPTY_VOC)
    assert account.sha256 == open_input(folder).sha256


def test_models_are_called_like_their_folders(tmp_path) -> None:
    for name in ("runs/v1.2/labels", "other.b"):
        (tmp_path / name).mkdir(parents=True)
    assert model_name(tmp_path / "runs/v1.2/labels") == "v1.2"
    assert model_name(tmp_path / "other.b") == "other.b"
    assert model_name("somewhere/dets.json") == "dets"


def test_pictures_without_annotations_are_images_only_if_asked_for(tmp_path) -> None:
    empty = "<annotation><filename>{}.png</filename></annotation>"
    files = {f"Annotations/{name}.xml": empty.format(name) for name in "ab"}
    files["Annotations/a.xml"] = VOC.replace("000001.jpg", "a.png")
    put(tmp_path, files)
    for name in "abcd":
        picture(tmp_path / "JPEGImages" / f"{name}.png", 400, 500)
        picture(tmp_path / "SegmentationClass" / f"{name}{name}.png", 400, 500)
    for place in (tmp_path, tmp_path / "Annotations"):
        cohort = cal.read(place)
        assert cohort.images.ids == ("a", "b")
        (note,) = [note for note in cohort.intake.notes if "have no annotations" in note]
        assert "2 pictures" in note
        assert "--all-images" in note
        whole = cal.read(place, all_images=True)
        assert whole.images.ids == ("a", "b", "c", "d")
        assert whole.images.size[2].tolist() == [400, 500]
        assert len(whole.references) == len(cohort.references)
        assert any("2 pictures have no annotations: images" in n for n in whole.intake.notes)


def test_pictures_of_other_names_are_no_images(tmp_path) -> None:
    put(tmp_path, {"a.xml": VOC, "b.xml": EMPTY_VOC})
    for name in "cd":
        picture(tmp_path / f"{name}.png", 400, 500)
    assert not any("have no annotations" in note for note in cal.read(tmp_path).intake.notes)
