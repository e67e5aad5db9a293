"""What is wrong with data, in one line."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from scenewright.core.validation import first_problem


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
        (Frame, {"sizes": [{"width": 2}, {"height": 1}]}, "", "sizes.1.width: Field required"),
        (Frame, {"sizes": [{"width": 1, "height": 2}]}, "", "sizes.0: it is upright"),
        (Size, {"width": 1, "height": 2}, "", "it is upright"),
        (Size, {"width": 1, "height": 2}, "the file", "the file: it is upright"),
        (Size, {}, "the file", "width: Field required"),
    ],
)
def test_first_problem(
    model: type[BaseModel], data: dict[str, object], whole: str, said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    assert first_problem(caught.value, whole) == said
