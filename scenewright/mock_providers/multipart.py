"""Forms of the type ``multipart/form-data`` (RFC 7578), as the providers' libraries send them."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message

from scenewright.mock_providers.problems import Problem

MOST_PARTS = 128


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    name: str
    """Its name."""
    data: bytes
    """Its content."""
    is_file: bool
    """Whether it came with a file's name."""

    @property
    def text(self) -> str:
        """The content as text; raises ``Problem`` if it is none."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            raise Problem.invalid(f"{self.name}: expected text in UTF-8", self.name) from None


def parts_of(body: bytes, content_type: str) -> list[FormField]:
    """The fields of a form, in order; raises ``Problem`` if it is none."""
    head = Message()
    head["content-type"] = content_type
    boundary = head.get_param("boundary")
    if head.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise Problem.invalid("the request is no form: send multipart/form-data")
    # With a line break before it, the first delimiter reads as all others do.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("utf-8", "replace"))
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise Problem.invalid("the form is broken off: its last delimiter is missing")
    if len(pieces) > MOST_PARTS:
        raise Problem.invalid(f"the form has more than {MOST_PARTS} parts")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> FormField:
    # Blanks may follow a delimiter, then a line break, the head, an empty line and the content.
    head, found, data = piece.lstrip(b" \t").partition(b"\r\n\r\n")
    named = Message()
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip().lower() == "content-disposition":
            named["content-disposition"] = value.strip().replace("\n", " ")
    name = named.get_param("name", header="content-disposition")
    if not found or not isinstance(name, str):
        raise Problem.invalid("a part of the form has no name")
    is_file = named.get_param("filename", header="content-disposition") is not None
    return FormField(name, data, is_file)
