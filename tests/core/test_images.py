"""The image store: content addressing, atomic writes, and what bad input gets."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, PngImagePlugin

from scenewright.core.images import MAX_SIDE, ImageError, ImageStore, load_image, png_bytes, to_rgb

KEY = "ab" * 32
# Content addressing makes it harmless that all examples of a test share one store.
ONE_STORE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None
)
PIXELS = arrays.arrays(
    np.uint8,
    st.tuples(st.integers(1, 24), st.integers(1, 24), st.just(3)),
    elements=st.integers(0, 255),
)


def picture(color: str = "red", size: tuple[int, int] = (8, 6)) -> Image.Image:
    return Image.new("RGB", size, color)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


@ONE_STORE
@given(PIXELS)
def test_pixels_come_back_and_the_name_is_the_hash_of_the_file(
    store: ImageStore, pixels: np.ndarray
) -> None:
    name = store.put(Image.fromarray(pixels))
    assert np.array_equal(np.asarray(store.get(name)), pixels)
    assert hashlib.sha256(store.path(name).read_bytes()).hexdigest() == name
    assert store.path(name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@ONE_STORE
@given(PIXELS, PIXELS)
def test_names_are_equal_exactly_when_pictures_are(
    store: ImageStore, one: np.ndarray, two: np.ndarray
) -> None:
    same = one.shape == two.shape and np.array_equal(one, two)
    assert (store.put(Image.fromarray(one)) == store.put(Image.fromarray(two))) is same
    assert store.put(store.get(store.put(Image.fromarray(one)))) == store.put(Image.fromarray(one))


def test_metadata_does_not_change_the_name(store: ImageStore) -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("made by", "somebody")
    labelled = Image.open(io.BytesIO(encoded(picture(), pnginfo=text, dpi=(300, 300))))
    assert store.put(labelled) == store.put(picture())


def test_putting_twice_writes_once(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    name = store.put(picture())
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("the file was written again"))
    assert store.put(picture()) == name


def test_a_corrupt_file_is_told_and_healed_by_putting_again(store: ImageStore) -> None:
    name = store.put(picture())
    whole = store.path(name).read_bytes()
    store.path(name).write_bytes(whole[:-20])
    with pytest.raises(ImageError, match="is corrupt"):
        store.get(name)
    store.put(picture())
    assert store.path(name).read_bytes() == whole


def test_rgb_png_bytes_are_kept_as_they_are(store: ImageStore) -> None:
    data = encoded(picture(), compress_level=1)
    name = store.put_bytes(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert store.path(name).read_bytes() == data


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "BMP", "GIF", "TIFF"])
def test_other_formats_are_kept_as_png(store: ImageStore, kind: str) -> None:
    data = encoded(picture(size=(16, 16)), kind)
    image = store.get(store.put_bytes(data))
    assert image.mode == "RGB"
    assert store.put(to_rgb(Image.open(io.BytesIO(data)))) == store.put(image)


def test_sideways_photographs_are_turned_upright(store: ImageStore, tmp_path: Path) -> None:
    photo = picture(size=(10, 4))
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG"):
        data = encoded(photo, kind, exif=exif)
        file = tmp_path / f"photo.{kind}"
        file.write_bytes(data)
        assert load_image(file).size == (4, 10)
        assert store.get(store.put_bytes(data)).size == (4, 10)


def test_transparent_parts_become_white(tmp_path: Path) -> None:
    glass = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    glass.putpixel((1, 0), (0, 0, 255, 0))
    file = tmp_path / "glass.png"
    glass.save(file)
    assert [load_image(file).getpixel((x, 0)) for x in (0, 1)] == [(255, 0, 0), (255, 255, 255)]
    glass.convert("P").save(tmp_path / "glass.gif", transparency=0)
    assert load_image(tmp_path / "glass.gif").mode == "RGB"


def test_sixteen_bit_grey_keeps_its_range() -> None:
    deep = Image.fromarray(np.array([[0, 0x8000, 0xFFFF]], dtype=np.uint16))
    assert np.asarray(to_rgb(deep))[0, :, 0].tolist() == [0, 0x80, 0xFF]


@pytest.mark.parametrize("mode", ["I", "F"])
def test_modes_without_a_range_are_refused(store: ImageStore, mode: str) -> None:
    with pytest.raises(ImageError, match="convert it to 8-bit RGB"):
        store.put(Image.new(mode, (2, 2)))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../../etc/passwd",
        "a" * 63,
        "A" * 64,
        "g" * 64,
        "a" * 64 + "\n",
        "/" + "a" * 63,
        None,
        7,
    ],
)
def test_malformed_names_are_refused_everywhere(store: ImageStore, name: object) -> None:
    assert name not in store
    image = store.put(picture())
    for act in (
        lambda: store.get(name),
        lambda: store.path(name),
        lambda: store.recall(name),
        lambda: store.remember(name, image, {}),
        lambda: store.remember(KEY, name, {}),
    ):
        with pytest.raises(ImageError, match="64 digits"):
            act()


def test_unknown_images_are_told(store: ImageStore) -> None:
    assert KEY not in store
    with pytest.raises(ImageError, match="no image abab"):
        store.get(KEY)
    with pytest.raises(ImageError, match="put it there first"):
        store.remember(KEY, "cd" * 32, {})


@ONE_STORE
@given(st.binary(max_size=200))
def test_bytes_that_are_no_image_never_raise_anything_else(store: ImageStore, data: bytes) -> None:
    with pytest.raises(ImageError):
        store.put_bytes(data)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@ONE_STORE
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]), st.data())
def test_damaged_files_give_an_image_or_an_image_error(
    store: ImageStore, kind: str, data: st.DataObject
) -> None:
    whole = bytearray(encoded(picture(size=(16, 16)), kind))
    cut = data.draw(st.integers(0, len(whole)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    try:
        name = store.put_bytes(bytes(whole[:cut]))
    except ImageError:
        return
    assert store.get(name).mode == "RGB"


def png_header(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize(
    "size", [(MAX_SIDE + 1, 1), (1, MAX_SIDE + 1), (10_000, 9_500), (60_000, 60_000)]
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_absurd_sizes_are_refused_before_decoding(
    store: ImageStore, tmp_path: Path, size: tuple[int, int]
) -> None:
    bomb = png_header(*size) + encoded(picture())[33:]
    file = tmp_path / "bomb.png"
    file.write_bytes(bomb)
    for act in (lambda: store.put_bytes(bomb), lambda: load_image(file)):
        with pytest.raises(ImageError, match="scale it down"):
            act()


def test_the_largest_size_is_kept(store: ImageStore) -> None:
    assert store.get(store.put(picture(size=(MAX_SIDE, 1)))).size == (MAX_SIDE, 1)


def test_files_that_cannot_be_read_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "half.png").write_bytes(encoded(picture(size=(64, 64)))[:60])
    for name, words in {
        "none.png": "there is no file",
        "": "is a folder",
        "text.png": "is not an image",
        "half.png": "is damaged",
        "nul\0.png": "not a file name",
    }.items():
        with pytest.raises(ImageError, match=words):
            load_image(f"{tmp_path}/{name}")


@ONE_STORE
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_requests_are_remembered_with_their_notes(
    store: ImageStore, meta: dict[str, object]
) -> None:
    image = store.put(picture())
    store.remember(KEY, image, meta)
    assert ImageStore(store.folder).recall(KEY) == (image, meta)


def test_remembering_again_replaces(store: ImageStore) -> None:
    red, blue = store.put(picture("red")), store.put(picture("blue"))
    assert store.recall(KEY) is None
    store.remember(KEY, red, {"n": 1})
    store.remember(KEY, blue, {"n": 2})
    assert store.recall(KEY) == (blue, {"n": 2})


def test_notes_must_be_plain_json(store: ImageStore) -> None:
    image = store.put(picture())
    for meta in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(ImageError, match="plain JSON"):
            store.remember(KEY, image, meta)
    assert store.recall(KEY) is None


def test_a_request_whose_image_is_gone_or_corrupt_is_not_remembered(store: ImageStore) -> None:
    image = store.put(picture())
    store.remember(KEY, image, {})
    store.path(image).write_bytes(b"rubbish")
    assert store.recall(KEY) is None
    store.path(image).unlink()
    assert store.recall(KEY) is None
    store.put(picture())
    assert store.recall(KEY) == (image, {})


@pytest.mark.parametrize(
    "note", ["", "{", "[]", "{}", '{"image": 7, "meta": {}}', '{"image": "../x", "meta": {}}']
)
def test_a_damaged_note_is_not_remembered(store: ImageStore, note: str) -> None:
    store.remember(KEY, store.put(picture()), {})
    (store.folder / "requests" / f"{KEY}.json").write_text(note)
    assert store.recall(KEY) is None


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_failing_disk_is_told_and_leaves_the_store_as_it_was(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    old = store.put(picture("green"))
    store.remember(KEY, old, {"n": 1})
    before = files(store.folder)

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        words = "no space left.*free some" if number == errno.ENOSPC else "cannot write in"
        with pytest.raises(ImageError, match=words) as caught:
            store.put(picture("blue"))
        assert str(store.folder) in str(caught.value)
        with pytest.raises(ImageError, match=words):
            store.remember(KEY, old, {"n": 2})
    assert files(store.folder) == before
    assert store.recall(KEY) == (old, {"n": 1})
    assert store.get(store.put(picture("blue"))).getpixel((0, 0)) == (0, 0, 255)


def test_short_writes_are_finished(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data[:7])))
    assert store.get(store.put(picture())).size == (8, 6)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_kill_at_any_moment_leaves_no_half_file(tmp_path: Path, call: str) -> None:
    """The process dies inside the call, so that no clean-up runs."""
    folder = tmp_path / "images"
    child = os.fork()
    if child == 0:
        inner = getattr(os, call)

        def die(*args: object) -> None:
            if call == "write":
                inner(args[0], bytes(args[1])[:9])
            os._exit(9)

        setattr(os, call, die)
        ImageStore(folder).put(picture())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    store = ImageStore(folder)
    assert not list(folder.glob("[!.]*.png"))
    name = store.put(picture())
    assert store.get(name).size == (8, 6)
    for draft in folder.glob(".*.tmp"):
        os.utime(draft, (0, 0))
    ImageStore(folder)
    assert files(folder) == {f"{name}.png"}


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImageError, match="choose another"):
        ImageStore(tmp_path / "file")


def test_png_encoding_is_stable() -> None:
    assert png_bytes(picture()) == png_bytes(picture().copy())
    assert png_bytes(picture().convert("P")) == png_bytes(picture())
