"""Tiny sets of prompts in the formats in which public benchmarks publish theirs, made up here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.evals.datasets.published import write_csv, write_json

BALL, DOG = "a red ball on a table", "a blue dog left of a tree"


def write_geneval2(folder: Path) -> None:
    """Two prompts with questions of three skills."""
    rows: list[dict[str, Any]] = [
        {
            "prompt": BALL,
            "atom_count": 3,
            "vqa_list": [
                ["Is there a ball in the image?", "Yes"],
                ["Is the ball red?", "Yes"],
                ["Is there a table in the image?", "Yes"],
            ],
            "skills": ["object", "attribute", "object"],
        },
        {
            "prompt": DOG,
            "atom_count": 2,
            "vqa_list": [
                ["How many dogs are in the image?", "one"],
                ["Is there a tree in the image?", "Yes"],
            ],
            "skills": ["count", "object"],
        },
    ]
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "geneval2_data.jsonl").write_text(text, encoding="utf-8")


def write_dsg(folder: Path) -> None:
    """Two prompts; of the first one question depends on another."""
    columns = (
        "item_id,text,category_broad,category_detailed,tuple,dependency,proposition_id,"
        "question_natural_language"
    )
    rows = [
        f"whoops_1,{BALL},entity,whole,entity - whole (ball),0,1,Is there a ball?",
        f'whoops_1,{BALL},attribute,color,"attribute - color (ball, red)",1,2,Is the ball red?',
        f"tifa_1,{DOG},entity,whole,entity - whole (dog),0,1,Is there a dog?",
    ]
    write_csv(folder / "dsg-1k-anns.csv", columns, rows)


def write_tifa(folder: Path) -> None:
    """Two prompts with a question of yes or no and one of choices."""
    prompts = [{"id": "drawbench_1", "caption": BALL}, {"id": "partiprompt_1", "caption": DOG}]
    asked = [
        {"id": "drawbench_1", "question": "is there a ball?", "choices": ["yes", "no"],
         "answer": "yes", "element_type": "object", "element": "ball"},
        {"id": "drawbench_1", "question": "what color is the ball?", "choices": ["red", "blue"],
         "answer": "red", "element_type": "color", "element": "ball"},
        {"id": "partiprompt_1", "question": "is there a dog?", "choices": ["yes", "no"],
         "answer": "yes", "element_type": "animal", "element": "dog"},
    ]  # fmt: skip
    write_json(folder / "tifa_v1.0_text_inputs.json", prompts)
    write_json(folder / "tifa_v1.0_question_answers.json", asked)


def write_genai_bench(folder: Path) -> None:
    """Three prompts, the last without a skill."""
    prompts = {f"{at:05d}": {"id": f"{at:05d}", "prompt": text} for at, text in
               enumerate((BALL, DOG, "a cat"))}  # fmt: skip
    write_json(folder / "genai_image.json", prompts)
    skills = {"attribute": [0, 1], "spatial relation": [1], "basic": [0], "advanced": [1]}
    write_json(folder / "genai_skills.json", skills)


def write_compbench(folder: Path) -> None:
    """One prompt of five categories, and one complex prompt without an action."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in {
        "color_val": ["a red ball and a blue table"],
        "spatial_val": ["a dog on the left of a tree"],
        "numeracy_val": ["two dogs"],
        "non_spatial_val": ["a dog is sitting on a table"],
        "complex_val": ["The red ball is on the left of the blue table."],
        "complex_val_spatial": ["The red ball is on the left of the blue table."],
        "complex_val_action": [],
        "3d_spatial_val": ["a dog in front of a tree"],
    }.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def write_oneig(folder: Path) -> None:
    """A prompt with questions in both published forms, one in a circle, and one without any."""
    rows = [
        f"Portrait,000,{BALL},T,short,none",
        f"General_Object,000,{DOG},T,short,none",
        "Text_Rendering,000,a sign that says open,T,short,none",
    ]
    columns = "category,id,prompt_en,type,prompt_length,class"
    write_csv(folder / "OneIG-Bench.csv", columns, rows)
    written = {
        "question": json.dumps({"1": "Is there a ball?", "2": "Is the ball red?"}),
        "dependency": json.dumps({"1": [0], "2": [1]}),
    }
    plain = {
        "question": {"1": "Is the dog blue?", "2": "Is there a dog?", "3": "Is there a tree?"},
        "dependency": {"1": [2], "2": [0], "3": [9]},
    }
    for name, data in {"anime": {}, "human": {"000": written}, "object": {"000": plain}}.items():
        write_json(folder / f"{name}.json", data)


def write_wise(folder: Path) -> None:
    """A prompt of each field, in the files of both releases."""
    texts = {
        "cultural_common_sense": [1],
        "spatio-temporal_reasoning": [405, 600],
        "natural_science": [750, 870, 950],
    }
    for name, numbers in texts.items():
        rows = [
            {"prompt_id": number, "Prompt": BALL, "Explanation": "a ball that is red",
             "Category": "any", "Subcategory": "toys"}
            for number in numbers
        ]  # fmt: skip
        write_json(folder / f"{name}.json", rows)
        write_json(folder / f"{name}_verified.json", rows)


def write_conceptmix(folder: Path) -> None:
    """A prompt of one concept and one of two, with an empty question, as in the release."""
    for k, text, questions, categories in (
        (1, BALL, ["Does the image contain a ball?  ", "Is the ball red?"], ["object", "color"]),
        (2, DOG, ["Does the image contain a dog?", "", "Does the image contain a tree?"],
         ["object", "object"]),
    ):  # fmt: skip
        rows = [{"index": 1, "sentence": text, "categories": categories, "question": questions}]
        write_json(folder / f"300_sentences_k={k}.json", rows)


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "geneval2": write_geneval2,
    "dsg": write_dsg,
    "tifa": write_tifa,
    "genai-bench": write_genai_bench,
    "t2i-compbench": write_compbench,
    "oneig": write_oneig,
    "wise": write_wise,
    "conceptmix": write_conceptmix,
}
"""Set → what writes it into a folder."""


def write_all(data: Path) -> None:
    """Write every set where ``scenewright data get`` would put it below ``data``."""
    for name, write in WRITERS.items():
        write(data / name)
