"""How a request with pictures is put into words for a model that is told all in its prompt.

The first paragraph is the request's own prompt, as it is; the notes follow after an empty line.
"""

from __future__ import annotations

from scenewright.core.ports.backend import GenerationRequest

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as shares of width and height."""

DRAFT = (
    "The first picture is a draft of this scene. Draw it again so that it shows everything that "
    "is described above, and keep what is right already."
)
OPEN_PART = (
    "The first picture is a draft of this scene. Draw anew only {part}, so that the whole picture "
    "shows everything that is described above. Keep the rest exactly as it is."
)
ORDERED = "This says what to change in the first picture. Keep everything else exactly as it is."
ORDERED_PART = (
    "This says what to change in the first picture. Change only {part}. Keep the rest exactly as "
    "it is."
)
MASKED = "the part that the mask leaves transparent"
BOXED = (
    "the region from {left}% to {right}% of the width (from the left) and from {top}% to "
    "{bottom}% of the height (from the top)"
)
SHOWN_ONE = "The {place} picture shows something of the scene: let it look like that."
SHOWN_MORE = "The {place} {count} pictures show things of the scene: let them look like that."
AVOID = "Leave out: {words}"

WORDING = (DRAFT, OPEN_PART, ORDERED, ORDERED_PART, MASKED, BOXED, SHOWN_ONE, SHOWN_MORE, AVOID)
"""All words, for fingerprints."""


def words_of(request: GenerationRequest, references: int, box: Box | None, masked: bool) -> str:
    """The prompt of ``request`` as it is sent, with notes on its pictures.

    ``references``: how many are shown. ``box``: where the start picture may change, if only a
    part of it may; ``masked``: the model is given that as a mask, else it is told here.
    """
    notes: list[str] = []
    start = request.start
    if start is not None and box is None:
        notes.append(ORDERED if start.instruct else DRAFT)
    elif start is not None and box is not None:
        left, top, right, bottom = (round(100 * share) for share in box)
        part = BOXED.format(left=left, top=top, right=right, bottom=bottom)
        part = f"{MASKED}: {part}" if masked else part
        notes.append((ORDERED_PART if start.instruct else OPEN_PART).format(part=part))
    if references:
        place = "last" if start is not None else "first" if references > 1 else "given"
        text = SHOWN_ONE if references == 1 else SHOWN_MORE
        notes.append(text.format(place=place, count=references))
    if request.negative_prompt.strip():
        notes.append(AVOID.format(words=request.negative_prompt.strip()))
    return "\n\n".join((request.prompt, " ".join(notes))) if notes else request.prompt
