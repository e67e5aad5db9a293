"""Streaming JSON: what comes is what the json module reads, in memory that stays flat."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.json_stream import JsonText, elements, sections, values

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FORMS = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def text_of(data: object, form: dict[str, Any]) -> bytes:
    return json.dumps(data, **form).encode("utf-8", "surrogatepass")


def no_surrogates(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(VALUES, max_size=8), FORMS, st.integers(1, 40))
def test_an_array_comes_as_the_json_module_reads_it(
    data: list[Any], form: dict[str, Any], block: int
) -> None:
    written = text_of(data, form)
    if not no_surrogates(written):
        return
    text = JsonText(io.BytesIO(b" \n" + written + b" "), "here", block=block)
    assert [value for _, value in text.array()] == data
    text.end()


@given(
    st.dictionaries(st.text(st.characters(codec="ascii")), st.lists(VALUES, max_size=4)),
    FORMS,
    st.integers(1, 40),
)
def test_arrays_under_keys_come_and_others_are_passed_over(
    data: dict[str, list[Any]], form: dict[str, Any], block: int
) -> None:
    written = text_of(data, form)
    if not no_surrogates(written):
        return
    wanted = set(list(data)[::2])
    text = JsonText(io.BytesIO(written), "here", block=block)
    got: dict[str, list[Any]] = {}
    for key in text.keys():  # noqa: SIM118
        if key in wanted:
            got[key] = [value for _, value in text.array()]
        else:
            text.skip()
    text.end()
    assert got == {key: data[key] for key in wanted}


@given(st.lists(VALUES, max_size=5), st.data())
def test_a_cut_off_array_is_an_error_and_never_less_data(data: list[Any], draw: Any) -> None:
    written = json.dumps(data).encode()
    cut = draw.draw(st.integers(0, len(written) - 1))
    block = draw.draw(st.integers(1, 40))
    got: list[Any] = []
    with pytest.raises(DatasetError, match=r"here, line 1 \(byte \d+\): "):
        got.extend(
            value for _, value in JsonText(io.BytesIO(written[:cut]), "here", block=block).array()
        )
    # A number at the cut may look whole: every element before it is the right one.
    assert got[:-1] == data[: max(0, len(got) - 1)]


@given(st.binary(max_size=60), st.integers(1, 20))
def test_any_bytes_are_read_as_json_or_refused(junk: bytes, block: int) -> None:
    try:
        want = json.loads(junk.decode("utf-8"), parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        want = None
    try:
        text = JsonText(io.BytesIO(junk), "here", block=block)
        got = [value for _, value in text.array()]
        text.end()
    except DatasetError:
        assert not isinstance(want, list)
    else:
        assert got == want


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[1,\n2,\n {"a": }]', r"line 3 \(byte 14\): no JSON \(Expecting value\) near '}\]'"),
        ("{}", r'line 1 \(byte 0\): expected "\[", found \'{}\''),
        ("[1 2]", r'expected "," or "\]", found \'2\]\''),
        ("[1,]", r"no JSON"),
        ("[1] x", r"more text after the end: 'x'"),
        ("[NaN]", "NaN is not JSON"),
        ("[" + "9" * 5000 + "]", "a value that cannot be read"),
        ("[" * 200_000, "nests too deep"),
        ('["é', "ends too early: the file is cut off"),
        ("", "ends too early"),
    ],
)
def test_an_error_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError, match=message) as caught:
        list(elements(file))
    assert str(file) in str(caught.value)


def test_a_place_after_many_blocks_is_right(tmp_path: Path) -> None:
    rows = [json.dumps({"name": "näme", "n": n}, ensure_ascii=False) for n in range(40_000)]
    rows[33_333] = '{"name": oops}'
    written = ("[\n" + ",\n".join(rows) + "\n]").encode()
    file = tmp_path / "a.json"
    file.write_bytes(written)
    with pytest.raises(DatasetError) as caught:
        list(elements(file))
    assert f"line 33335 (byte {written.index(b'oops')})" in str(caught.value)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'["\xff\xfe"]')
    with pytest.raises(DatasetError, match="not UTF-8 text"):
        list(elements(file))


def test_an_element_that_is_too_long_is_refused() -> None:
    text = JsonText(io.BytesIO(b'["' + b"x" * 5000 + b'"]'), "here", block=64, most=1000)
    with pytest.raises(DatasetError, match="an element of more than 1000 characters"):
        list(text.array())


def test_packed_files_are_read_where_they_lie(tmp_path: Path) -> None:
    data = [{"a": n} for n in range(1000)]
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert [value for _, value in elements(packed)] == data
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("in/a.json", json.dumps(data))
        file.writestr("in/readme.txt", "hello")
    assert [value for _, value in elements(archive)] == data
    assert [value for _, value in elements(archive, "in/a.json")] == data
    with pytest.raises(DatasetError, match=r"holds no b\.json: it holds in/a\.json"):
        list(elements(archive, "b.json"))
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"damaged|cut off"):
        list(elements(packed))
    archive.write_bytes(b"PK nothing")
    with pytest.raises(DatasetError, match="not a complete zip archive"):
        list(elements(archive))
    with pytest.raises(DatasetError, match="cannot be read"):
        list(elements(tmp_path / "none.json"))


def test_lines_one_value_and_an_array_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for text, want in [
        ('{"a": 1}\n\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ('{"a": 1}', [{"a": 1}]),
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('\ufeff[{"a": 1}]', [{"a": 1}]),
    ]:
        file.write_text(text, encoding="utf-8")
        assert [value for _, value in values(file)] == want
    file.write_text(" ", encoding="utf-8")
    with pytest.raises(DatasetError, match="ends too early"):
        list(values(file))


def test_a_key_that_is_needed_must_be_there_once(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"info": {"x": [1, {"y": 2}]}, "images": [1, 2]}', encoding="utf-8")
    assert list(sections(file, ["images"])) == [("images", 0, 1), ("images", 1, 2)]
    with pytest.raises(DatasetError, match='has no "annotations"'):
        list(sections(file, ["annotations"]))
    file.write_text('{"images": [1], "images": [2]}', encoding="utf-8")
    with pytest.raises(DatasetError, match='"images" is given twice'):
        list(sections(file, ["images"]))


class Endless(io.RawIOBase):
    """An array of ``count`` boxes that is nowhere whole."""

    def __init__(self, count: int) -> None:
        super().__init__()
        rows = (b'{"id": %d, "bbox": [1.5, 2.5, 3.5, 4.5]}' % n for n in range(count))
        first = next(rows)
        self.parts = itertools.chain([b"[" + first], (b",\n" + row for row in rows), [b"]"])
        self.rest = b""

    def read(self, size: int = -1) -> bytes:
        while len(self.rest) < size:
            part = next(self.parts, None)
            if part is None:
                break
            self.rest += part
        block, self.rest = self.rest[:size], self.rest[size:]
        return block


def test_memory_does_not_grow_with_the_file() -> None:
    def peak(count: int) -> int:
        text = JsonText(Endless(count), "here", block=4096)  # type: ignore[arg-type]
        tracemalloc.start()
        seen = sum(1 for _ in text.array())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == count
        return most

    peak(1000)
    assert peak(20_000) < 1.2 * peak(1000)
