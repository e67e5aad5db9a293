"""What is wrong with data, in one line."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal, get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ErrorType

from scenewright.core.validation import first_problem, problem_in_words

OWN = ("value_error", "assertion_error")


class Size(BaseModel):
    width: int
    height: int = 1

    @model_validator(mode="after")
    def _check(self) -> Size:
        if self.width < self.height:
            raise ValueError("it is upright")
        return self


class Frame(BaseModel):
    sizes: tuple[Size, ...]


@pytest.mark.parametrize(
    ("model", "data", "whole", "said"),
    [
        (Frame, {"sizes": [{"width": 2}, {"height": 1}]}, "", "sizes.1.width: is required"),
        (Frame, {"sizes": [{"width": 1, "height": 2}]}, "", "sizes.0: it is upright"),
        (Size, {"width": 1, "height": 2}, "", "it is upright"),
        (Size, {"width": 1, "height": 2}, "the file", "the file: it is upright"),
        (Size, {}, "the file", "width: is required"),
    ],
)
def test_first_problem(
    model: type[BaseModel], data: dict[str, object], whole: str, said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    assert first_problem(caught.value, whole) == said


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    whole: int = Field(default=1, ge=1, lt=9, multiple_of=2)
    number: float = 1.0
    flag: bool = True
    text: str = Field(default="aa", min_length=2, max_length=3, pattern="^a+$")
    choice: Literal["a", "b"] = "a"
    listed: tuple[int, ...] = Field(default=(1,), min_length=1, max_length=2)
    inner: Size | None = None
    when: date | None = None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"whole": "x"}, "whole: must be a whole number"),
        ({"whole": 1.5}, "whole: must be a whole number"),
        ({"whole": 0}, "whole: must be at least 1"),
        ({"whole": 10}, "whole: must be less than 9"),
        ({"whole": 3}, "whole: must be a multiple of 2"),
        ({"number": "x"}, "number: must be a number"),
        ({"number": float("nan")}, "number: must be a finite number"),
        ({"flag": "x"}, "flag: must be true or false"),
        ({"text": 5}, "text: must be text"),
        ({"text": "a"}, "text: must have at least 2 characters"),
        ({"text": "aaaa"}, "text: has too many characters, the limit is 3"),
        ({"text": "ab"}, "text: has the wrong form: it must match ^a+$"),
        ({"choice": "c"}, "choice: must be one of 'a' or 'b'"),
        ({"listed": 3}, "listed: must be a list"),
        ({"listed": []}, "listed: must have at least 1 items"),
        ({"listed": [1, 2, 3]}, "listed: has too many items, the limit is 2"),
        ({"inner": 3}, "inner: must be an object with named fields"),
        ({"inner": {"width": 1, "height": 2}}, "inner: it is upright"),
        ({"when": "x"}, "when: is not valid (date from datetime parsing)"),
        ({"surprise": 1}, "surprise: unknown key"),
    ],
)
def test_a_problem_is_told_in_our_own_words(data: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Everything.model_validate(data)
    assert first_problem(caught.value) == said
    assert not re.search(r"Input should|Field required|Extra inputs|pydantic", said)


def test_no_kind_of_problem_is_told_in_the_librarys_words() -> None:
    for kind in get_args(ErrorType):
        told = problem_in_words({"type": kind, "msg": "LIBRARY", "ctx": {}})
        assert (told == "LIBRARY") is (kind in OWN)
    own = PydanticCustomError("of_our_own", "the cat is missing")
    assert problem_in_words({"type": own.type, "msg": own.message()}) == "the cat is missing"
