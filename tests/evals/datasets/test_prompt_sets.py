"""The readers of published prompts: what becomes of each entry, slips, and files that are wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.questions import facts_of
from scenewright.evals.datasets import dsg, prompt_sets
from scenewright.evals.datasets.base import DatasetError, StreamedSet
from tests.evals.datasets.published import check_set, write_json

HEAD = "item_id,text,proposition_id,dependency,category_broad,tuple,question_natural_language"


def dsg_file(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    return path


ROWS = (
    "vrd_1,two dogs,1,0,entity,entity - whole (dogs),Are there dogs?",
    'vrd_1,two dogs,2,1,other,"other - count (dogs, ==2)",Are there two dogs?',
    "vrd_1,two dogs,3,0,entity,entity - part (man's hat),Is there a hat?",
    "vrd_1,two dogs,4,0,entity,entity - whole (man),Is there a man?",
    'vrd_1,two dogs,5,"1,3",relation,"relation - spatial (dogs, hat, under)",Are the dogs below?',
    'vrd_1,two dogs,6,3,attribute,"attribute - color (man\'s hat, red and blue)",Is the hat red?',
    'vrd_1,two dogs,7,1,relation,"relation - action (dogs, run)",Are the dogs running?',
    "vrd_1,two dogs,8,0,global,global - - (photo),Is this a photo?",
    "whoops_2,a cat,1,0,entity,entity - whole (cat),Is there a cat?",
)


class TestDsg:
    def test_tuples_become_the_scene(self, tmp_path: Path) -> None:
        (item, cat) = dsg.load(dsg_file(tmp_path / "dsg-1k-anns.csv", *ROWS))
        assert item.scene is not None
        assert [o.id for o in item.scene.objects] == ["dog.1", "dog.2", "hat.1", "man.1"]
        assert item.scene.object("hat.1").attributes == {"color": "red and blue"}
        assert item.scene.object("dog.2").attributes == {"state": "run"}
        assert list(map(str, item.scene.relations)) == [
            "man.1 has hat.1",
            "dog.1 under hat.1",
            "dog.2 under hat.1",
        ]
        assert (item.group, item.category) == ("Relations", "vrd")
        assert cat.id == "whoops_2"

    def test_what_is_said_of_the_whole_picture_is_a_wish(self, tmp_path: Path) -> None:
        rows = (
            *(ROWS[0], ROWS[1], ROWS[7]),
            "vrd_1,two dogs,9,0,global,global - style (in the style of Hokusai),Is it his style?",
            "vrd_1,two dogs,10,0,global,global - view (from above),Is it seen from above?",
            "vrd_1,two dogs,11,0,global,global - - (at night),Is it night?",
            'vrd_1,two dogs,12,1,attribute,"attribute - resolution (dogs, 8k)",Is it in 8k?',
            'vrd_1,two dogs,13,1,attribute,"attribute - mood (dogs, sad)",Are the dogs sad?',
            'vrd_1,two dogs,14,0,other,"other - aspect ratio (dogs, 16:9)",Is it 16:9?',
        )
        (item,) = dsg.load(dsg_file(tmp_path / "a.csv", *rows))
        assert item.scene is not None
        wished = {(one.kind, one.text) for one in item.scene.intent.globals}
        assert wished == {
            ("medium", "photo"),
            ("style", "in the style of Hokusai"),
            ("view", "from above"),
            ("time", "at night"),
            ("quality", "8k"),
            ("aspect", "16:9"),
        }
        assert item.scene.object("dog.1").attributes == {"mood": "sad"}
        # The set's own questions are all asked as before.
        assert {fact.kind for fact in item.facts if fact.id in ("8", "9", "10")} == {"attribute"}

    @pytest.mark.parametrize(
        ("said", "kind", "number", "objects"),
        [
            ("==3", "exact", 3, 3),
            ("== three", "exact", 3, 3),
            ("==1", "exact", 1, 1),
            (">1", "least", 2, 2),
            (">=4", "least", 4, 4),
            ("==few", "open", None, 2),
            ("a lot", "open", None, 2),
            ("==1945", "exact", 1945, 1),
        ],
    )
    def test_counts_say_how_they_are_meant(
        self, tmp_path: Path, said: str, kind: str, number: int | None, objects: int
    ) -> None:
        row = f'vrd_1,dogs,2,1,other,"other - count (dogs, {said})",Are there so many dogs?'
        (item,) = dsg.load(dsg_file(tmp_path / "a.csv", ROWS[0], row))
        assert item.scene is not None
        (count,) = item.scene.intent.counts
        assert (count.kind, count.number, len(count.objects)) == (kind, number, objects)
        assert count.objects == tuple(one.id for one in item.scene.objects)
        asked = [fact for fact in facts_of(item.scene) if fact.kind == "count"]
        assert len(asked) == (kind == "exact" and number == objects)

    def test_facts_name_objects_of_the_scene_and_keep_their_parents(self, tmp_path: Path) -> None:
        item = next(iter(dsg.load(dsg_file(tmp_path / "a.csv", *ROWS))))
        facts = {fact.id: fact for fact in item.facts}
        assert [*facts] == [str(n) for n in range(1, 9)]
        relation = facts["5"]
        assert (relation.kind, relation.subject, relation.target) == ("relation", "dog.1", "hat.1")
        assert (relation.predicate, relation.parents) == ("under", ("1", "3"))
        assert (facts["2"].kind, facts["2"].subject) == ("object", "dog.1")
        assert (facts["6"].key, facts["6"].value) == ("color", "red and blue")
        assert facts["8"].subject == dsg.WHOLE

    def test_parents_of_what_cannot_be_asked_stand_in_for_it(self, tmp_path: Path) -> None:
        found = dsg.load(
            dsg_file(
                tmp_path / "a.csv",
                "vrd_1,x,1,0,entity,entity - whole (dog),Is there a dog?",
                "vrd_1,x,2,1,entity,entity - part (dog's hat), ",
                'vrd_1,x,3,2,attribute,"attribute - color (dog\'s hat, red)",Is the hat red?',
                'vrd_1,x,4,"9,2",attribute,"attribute - size (hat, big)",Where is the hat?',
                'vrd_1,x,5,"5,7",attribute,"attribute - size (hat, big)",Is the hat big?',
                'vrd_1,x,6,"1,red",attribute,"attribute - size (dog, big)",Is the dog big?',
                'vrd_1,x,6,"1",attribute,"attribute - size (dog, big)",Is the dog huge?',
            )
        )
        (item,) = found
        assert {f.id: f.parents for f in item.facts} == {
            "1": (),
            "3": ("1",),
            "5": (),
            "6": ("1",),
        }
        assert dict(found.left_out) == {
            dsg.NO_QUESTION: 1,
            dsg.NOT_BINARY: 1,
            dsg.ITSELF: 1,
            dsg.LOST: 1,
            dsg.NO_NUMBER: 1,
            dsg.TWICE: 1,
        }

    def test_circles_are_cut_and_parents_come_first(self, tmp_path: Path) -> None:
        found = dsg.load(
            dsg_file(
                tmp_path / "a.csv",
                "vrd_1,x,1,2,entity,entity - whole (dog),Is there a dog?",
                "vrd_1,x,2,3,entity,entity - whole (cat),Is there a cat?",
                "vrd_1,x,3,1,entity,entity - whole (hat),Is there a hat?",
            )
        )
        (item,) = found
        assert [(f.id, f.parents) for f in item.facts] == [("3", ()), ("2", ("3",)), ("1", ("2",))]
        assert dict(found.left_out) == {dsg.CIRCLE: 1}

    def test_one_split_and_other_ways_to_scenes(self, tmp_path: Path) -> None:
        file = dsg_file(tmp_path / "a.csv", *ROWS)
        assert [item.id for item in dsg.load(file, split="whoops")] == ["whoops_2"]
        (bare,) = dsg.load(file, split="whoops", parse="none")
        assert bare.scene is None
        assert len(bare.facts) == 1
        with pytest.raises(DatasetError, match="no prompts of the split 'nope'"):
            list(dsg.load(file, split="nope"))

    def test_files_of_another_form_are_refused(self, tmp_path: Path) -> None:
        file = dsg_file(tmp_path / "a.csv", "vrd_1,x,one,0,entity,entity - whole (dog),Is it?")
        with pytest.raises(DatasetError, match=r"a.csv, line 2: proposition_id is 'one'"):
            list(dsg.load(file))
        file.write_text("item_id,text\nvrd_1,x\n")
        with pytest.raises(DatasetError, match="no column proposition_id, dependency"):
            list(dsg.load(file))
        dsg_file(file, ROWS[0], "vrd_1,cut off")
        with pytest.raises(DatasetError, match="line 3: it has 2 fields, the first line has 7"):
            list(dsg.load(file))


def tifa_folder(folder: Path, questions: list[dict[str, Any]] | None = None) -> Path:
    prompts = [
        {"id": "coco_1", "caption": "a red ball", "coco_val_id": "42"},
        {"id": "drawbench_2", "caption": "two dogs"},
    ]
    write_json(folder / prompt_sets.TIFA_FILE, prompts)
    if questions is not None:
        write_json(folder / prompt_sets.TIFA_QUESTIONS, questions)
    return folder


def question(prompt: str = "coco_1", **more: Any) -> dict[str, Any]:
    asked = {"id": prompt, "question": "is it red?", "choices": ["Yes", "no"], "answer": "yes"}
    return {**asked, "element": "red", "element_type": "color", **more}


class TestTifa:
    def test_questions_become_facts(self, tmp_path: Path) -> None:
        colour = {"question": "what colour?", "choices": ["red", "blue"], "answer": "red"}
        folder = tifa_folder(
            tmp_path,
            [
                question(element="ball", element_type="object", question="is there a ball?"),
                question(),
                question(**colour),
                question(prompt="drawbench_2", choices=["yes", "no"], answer="no"),
            ],
        )
        first, second = prompt_sets.load_tifa(folder)
        assert [(f.id, f.kind, f.subject) for f in first.facts] == [
            ("q1", "object", "ball.1"),
            ("q2", "attribute", "red"),
            ("q3", "attribute", "red"),
        ]
        assert first.facts[1].options == ("yes", "no")
        assert first.facts[2].options == ("red", "blue")
        assert (second.facts[0].expected, second.facts[0].statement) == ("no", "red: no")
        assert first.scene is not None

    def test_slips_are_left_out_and_counted(self, tmp_path: Path) -> None:
        found = prompt_sets.load_tifa(
            tifa_folder(
                tmp_path,
                [
                    question(),
                    question(),
                    question(answer="blue"),
                    question(choices=["yes", "Yes"]),
                    question(choices=None),
                    question(prompt="coco_9"),
                ],
            ),
            parse="none",
        )
        assert [len(item.facts) for item in found] == [1, 0]
        assert dict(found.left_out) == {
            prompt_sets.TWICE: 1,
            prompt_sets.WRONG_ANSWER: 1,
            prompt_sets.FEW_CHOICES: 2,
            prompt_sets.NO_PROMPT: 1,
        }

    def test_photos_of_coco_are_found_by_their_number(self, tmp_path: Path) -> None:
        photo = tmp_path / "COCO_val2014_000000000042.jpg"
        photo.write_bytes(b"x")
        first, second = prompt_sets.load_tifa(tifa_folder(tmp_path), images=str(tmp_path))
        assert first.image == str(photo)
        assert second.image is None

    def test_wrong_files_are_told_with_their_place(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"no file .*nope\.json"):
            prompt_sets.load_tifa(tifa_folder(tmp_path), questions="nope.json")
        (tmp_path / prompt_sets.TIFA_FILE).write_text('[{"id": "a", "caption": 3}]')
        with pytest.raises(DatasetError, match="entry 0: 'caption' must be text, found 3"):
            list(prompt_sets.load_tifa(tmp_path))
        (tmp_path / prompt_sets.TIFA_FILE).write_text('[{"id": "a",\n "caption": }]')
        with pytest.raises(DatasetError, match="is not valid JSON: line 2, column 13"):
            list(prompt_sets.load_tifa(tmp_path))
        (tmp_path / prompt_sets.TIFA_FILE).write_text("{}")
        with pytest.raises(DatasetError, match="is not a JSON list"):
            list(prompt_sets.load_tifa(tmp_path))


def geneval_file(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


COUNTING = {
    "tag": "counting",
    "include": [{"class": "bus", "count": 2}],
    "exclude": [{"class": "bus", "count": 3}],
    "prompt": "a photo of two buses",
}
POSITION = {
    "tag": "position",
    "include": [
        {"class": "bench", "count": 1},
        {"class": "dog", "count": 1, "color": "red", "position": ["left of", 0]},
    ],
    "prompt": "a photo of a red dog left of a bench",
}


class TestGeneval:
    def test_demands_become_the_scene(self, tmp_path: Path) -> None:
        two, placed = prompt_sets.load_geneval(
            geneval_file(tmp_path / "m.jsonl", COUNTING, POSITION)
        )
        assert two.id == "00000"
        assert two.scene is not None
        assert [o.id for o in two.scene.objects] == ["bus.1", "bus.2"]
        last = two.facts[-1]
        assert last.question == "Are there fewer than 3 buses in the image?"
        assert last.parents == ("o:bus.2",)
        assert two.facts[:-1] == tuple(prompt_sets.facts_of(two.scene))
        assert placed.scene is not None
        assert list(map(str, placed.scene.relations)) == ["dog.1 left of bench.1"]
        assert placed.scene.object("dog.1").attributes == {"color": "red"}
        assert placed.facts == ()
        assert placed.group == "position"

    def test_what_must_not_be_there_can_be_a_note_alone(self, tmp_path: Path) -> None:
        (two,) = prompt_sets.load_geneval(
            geneval_file(tmp_path / "m.jsonl", COUNTING), exclude="meta"
        )
        assert two.facts == ()
        assert two.meta["exclude"] == "bus from 3"

    @pytest.mark.parametrize(
        ("entry", "told"),
        [
            ({**COUNTING, "include": 3}, "include: must be a list, found 3"),
            (
                {**COUNTING, "include": [{"class": "bus", "count": 0}]},
                r"include\.0\.count: must be .* found 0",
            ),
            ({**COUNTING, "include": [{"count": 1}]}, r"include\.0\.class: is required"),
            ({**COUNTING, "include": []}, "the scene is empty"),
            (
                {
                    **POSITION,
                    "include": [{"class": "dog", "count": 1, "position": ["above", 0]}],
                },
                "related to itself",
            ),
            (
                {
                    **POSITION,
                    "include": [{"class": "dog", "count": 1, "position": ["above", 4]}],
                },
                "position is",
            ),
        ],
    )
    def test_entries_that_cannot_be_name_their_line(
        self, tmp_path: Path, entry: dict[str, Any], told: str
    ) -> None:
        file = geneval_file(tmp_path / "m.jsonl", COUNTING, entry)
        items = iter(prompt_sets.load_geneval(file))
        next(items)
        with pytest.raises(DatasetError, match=f"line 2.*{told}"):
            next(items)

    def test_a_broken_line_does_not_keep_earlier_ones_from_being_read(self, tmp_path: Path) -> None:
        file = geneval_file(tmp_path / "m.jsonl", COUNTING)
        file.write_text(file.read_text() + "{\n")
        items = iter(prompt_sets.load_geneval(file))
        assert next(items).id == "00000"
        with pytest.raises(DatasetError, match=r"m.jsonl, line 2 is not valid JSON"):
            next(items)


class TestPartiPrompts:
    def test_quotation_marks_are_part_of_the_prompt(self, tmp_path: Path) -> None:
        file = tmp_path / "PartiPrompts.tsv"
        file.write_text(
            "Prompt\tCategory\tChallenge\tNote\r\n"
            '"A" in a red box\tArts\tBasic\tfrom a book\r\n'
            "\tArts\tBasic\t\r\n"
            "infinity\tAbstract\tBasic\t\r\n"
        )
        found = prompt_sets.load_parti(file)
        first, last = found
        assert (first.id, first.prompt) == ("p0001", '"A" in a red box')
        assert (first.group, first.category) == ("Arts", "Basic")
        assert first.meta["note"] == "from a book"
        assert last.id == "p0003"
        assert dict(found.left_out) == {prompt_sets.EMPTY: 1}

    def test_a_packed_file_is_read_too(self, tmp_path: Path) -> None:
        file = tmp_path / "p.tsv.gz"
        file.write_bytes(gzip.compress(b"Prompt\tCategory\tChallenge\na ball\tArts\tBasic\n"))
        assert [item.prompt for item in prompt_sets.load_parti(file)] == ["a ball"]
        file.write_bytes(file.read_bytes()[:-12])
        with pytest.raises(DatasetError, match="cut off: fetch it again"):
            list(prompt_sets.load_parti(file))
        file.write_bytes(b"plain")
        with pytest.raises(DatasetError, match="is not a gzip file"):
            list(prompt_sets.load_parti(file))

    def test_text_of_another_encoding_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "p.tsv"
        file.write_bytes(b"Prompt\tCategory\tChallenge\ncaf\xe9\tArts\tBasic\n")
        with pytest.raises(DatasetError, match="is not UTF-8 text"):
            list(prompt_sets.load_parti(file))


class TestT2ICompBench:
    def folder(self, tmp_path: Path) -> Path:
        for name, text in {
            "color_val": "a red ball\n\na blue dog\na red ball\n",
            "color_train": "a green cat\n",
            "3d_spatial_val": "a dog in front of a cat\n",
            "spatial": "a dog on the left of a cat\n",
            "new_objects": "a thing\n",
        }.items():
            (tmp_path / f"{name}.txt").write_text(text)
        return tmp_path

    def test_the_names_of_files_say_category_and_split(self, tmp_path: Path) -> None:
        found = prompt_sets.load_compbench(self.folder(tmp_path))
        assert [(i.id, i.category, i.group) for i in found] == [
            ("3d_spatial_val-00001", "3d_spatial", "object relationships"),
            ("color_val-00001", "color", "attribute binding"),
            ("color_val-00003", "color", "attribute binding"),
        ]
        assert dict(found.left_out) == {prompt_sets.REPEATED: 1}

    def test_splits_and_categories_can_be_chosen(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        everything = prompt_sets.load_compbench(folder, split="all")
        assert {i.category for i in everything} == {"3d_spatial", "color", "spatial"}
        assert len(list(everything)) == 5
        (one,) = prompt_sets.load_compbench(folder, split="train", categories=["color"])
        assert one.prompt == "a green cat"
        with pytest.raises(DatasetError, match="no category 'shape': it has 3d_spatial, color"):
            prompt_sets.load_compbench(folder, categories=["shape"])
        with pytest.raises(DatasetError, match="no files of the split train"):
            prompt_sets.load_compbench(folder, split="train", categories=["spatial"])
        with pytest.raises(DatasetError, match="option split is 'test'"):
            prompt_sets.load_compbench(folder, split="test")


def append(path: Path) -> Callable[[], object]:
    return lambda: path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize("name", ["dsg", "tifa", "geneval", "partiprompts", "t2i"])
def test_each_is_a_set_as_the_port_says(name: str, tmp_path: Path) -> None:
    make: Callable[[], StreamedSet]
    if name == "dsg":
        file = dsg_file(tmp_path / dsg.FILE, *ROWS)
        make = lambda: dsg.load(tmp_path)  # noqa: E731
    elif name == "tifa":
        file = tifa_folder(tmp_path, [question()]) / prompt_sets.TIFA_QUESTIONS
        make = lambda: prompt_sets.load_tifa(tmp_path)  # noqa: E731
    elif name == "geneval":
        file = geneval_file(tmp_path / prompt_sets.GENEVAL_FILE, COUNTING, POSITION)
        make = lambda: prompt_sets.load_geneval(tmp_path)  # noqa: E731
    elif name == "partiprompts":
        file = tmp_path / prompt_sets.PARTI_FILE
        file.write_text("Prompt\tCategory\tChallenge\na ball\tArts\tBasic\n")
        make = lambda: prompt_sets.load_parti(tmp_path)  # noqa: E731
    else:
        file = tmp_path / "color_val.txt"
        file.write_text("a red ball\n")
        make = lambda: prompt_sets.load_compbench(tmp_path)  # noqa: E731
    check_set(make, append(file))
