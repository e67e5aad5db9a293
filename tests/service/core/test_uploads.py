"""Pictures that people send: limits before decoding, no metadata, and nothing breaks."""

from __future__ import annotations

import io
import struct
import time
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from scenewright.service.core.errors import ServiceError, TooLarge, Unprocessable
from scenewright.service.core.pictures import decoded, picture_in
from scenewright.service.core.settings import ServiceSettings

SETTINGS = ServiceSettings(upload_bytes=2**20, upload_pixels=512 * 512)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
FUZZ = settings(max_examples=150, deadline=5000, derandomize=True, database=None,
                suppress_health_check=list(HealthCheck))  # fmt: skip

# What the decoder warns of, it also refuses or mends.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def picture() -> Image.Image:
    """40×30 pixels: red on the left, blue on the right, green above."""
    image = Image.new("RGB", (40, 30), (200, 0, 0))
    image.paste((0, 0, 200), (20, 0, 40, 30))
    image.paste((0, 200, 0), (0, 0, 40, 6))
    return image


def saved(image: Image.Image, form: str = "PNG", **more: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **more)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_claiming(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG file whose header claims a size, whatever its data holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read(form: str) -> None:
    found = decoded(saved(picture(), form), SETTINGS)
    assert (found.mode, found.size) == ("RGB", (40, 30))
    red, _, blue = found.getpixel((5, 20))  # type: ignore[misc]
    assert red > 150 > blue


def test_a_file_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge, match="1 MiB"):
        decoded(b"x" * (2**20 + 1), SETTINGS)


@pytest.mark.parametrize("size", [(513, 512), (2**20, 1), (2**31 - 1, 2**31 - 1), (65_500, 65_500)])
def test_a_picture_that_claims_many_pixels_is_refused_by_its_header(size: tuple[int, int]) -> None:
    began = time.thread_time()
    with pytest.raises((TooLarge, Unprocessable)) as caught:
        decoded(png_claiming(*size), SETTINGS)
    assert time.thread_time() - began < 1
    assert "pixels" in str(caught.value) or "damaged" in str(caught.value)


def test_the_pixels_are_never_decoded_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: Image.Image) -> None:
        raise AssertionError("the picture was decoded")

    data = saved(Image.new("RGB", (600, 600)))
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", load)
    with pytest.raises(TooLarge, match="360000 pixels"):
        decoded(data, SETTINGS)


def test_a_bomb_of_zeros_is_refused_for_what_it_unpacks_to() -> None:
    # 100 MB of zeros in 100 KB, behind a header that claims little.
    packed = zlib.compress(bytes(100_000_000), 9)
    began = time.thread_time()
    small = decoded(png_claiming(16, 16, packed), SETTINGS)
    assert small.size == (16, 16)
    assert time.thread_time() - began < 2
    with pytest.raises(TooLarge):
        decoded(png_claiming(8000, 4000, packed), SETTINGS)


def test_a_bomb_of_text_is_refused() -> None:
    whole = saved(picture())
    text = chunk(b"zTXt", b"note\0\0" + zlib.compress(bytes(200_000_000), 9))
    with pytest.raises(Unprocessable):
        decoded(whole[:33] + text + whole[33:], SETTINGS)


def test_a_picture_stands_upright_as_its_tag_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = decoded(saved(picture(), "JPEG", exif=exif.tobytes(), quality=95), SETTINGS)
    assert found.size == (30, 40)
    red, green, _ = found.getpixel((28, 5))  # type: ignore[misc]
    assert green > 150 > red


def test_no_metadata_is_left() -> None:
    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Author", "somebody")
    for data in (
        saved(picture(), "JPEG", exif=exif.tobytes(), icc_profile=b"profile", comment=b"hello"),
        saved(picture(), "PNG", pnginfo=notes, exif=exif.tobytes(), icc_profile=b"profile"),
        saved(picture(), "WEBP", exif=exif.tobytes(), xmp=b"<xmp/>"),
    ):
        found = decoded(data, SETTINGS)
        assert found.info == {}
        assert dict(found.getexif()) == {}
        for form in ("PNG", "JPEG", "WEBP"):
            again = saved(found, form)
            assert b"home" not in again
            assert b"profile" not in again
            assert b"somebody" not in again


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_a_film_the_first_picture_counts(form: str) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ((200, 0, 0), (0, 0, 200))]
    data = saved(frames[0], form, save_all=True, append_images=frames[1:])
    red, _, blue = decoded(data, SETTINGS).getpixel((10, 10))  # type: ignore[misc]
    assert red > 150
    assert blue < 60


def test_a_film_of_very_many_pictures_takes_no_time() -> None:
    frame = bytes.fromhex("2c0000000001000100000002024401003b")[:-1]
    data = b"GIF89a\x01\x00\x01\x00\x80\x00\x00" + bytes(6) + frame * 60_000 + b";"
    began = time.thread_time()
    assert decoded(data, SETTINGS).size == (1, 1)
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    "data",
    [b"", b"\x89PNG\r\n\x1a\n", b"%PDF-1.4", b"<svg xmlns='http://www.w3.org/2000/svg'/>",
     b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\0" * 1000, b"https://example.com/a.png",
     b"file:///etc/passwd", b"P6 2 2 255 " + bytes(12), b"#define x_width 8\n#define x_height 8\n"],
)  # fmt: skip
async def test_what_is_no_picture_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(Unprocessable, match=r"not an image|damaged"):
        await picture_in(data, SETTINGS)


def attempt(data: bytes) -> None:
    """Read a file: a picture within the limits, or an error with a remedy, in little time."""
    began = time.thread_time()
    found: Image.Image | ServiceError
    try:
        found = decoded(data, SETTINGS)
    except ServiceError as error:
        found = error
    if isinstance(found, ServiceError):
        assert found.status in (413, 422)
        assert len(found.detail) < 400
    else:
        assert found.mode == "RGB"
        assert found.width * found.height <= SETTINGS.upload_pixels
    assert time.thread_time() - began < 5


@FUZZ
@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    attempt(data)


WHOLE = tuple(saved(picture(), form) for form in FORMATS)
HEADS = (
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe1",
    b"GIF89a",
    b"RIFF\xff\xff\xff\xffWEBPVP8X",
    b"BM",
    b"II*\0",
    b"MM\0*",
)


@FUZZ
@given(st.sampled_from(HEADS), st.binary(max_size=400))
def test_any_bytes_behind_a_good_beginning(head: bytes, data: bytes) -> None:
    attempt(head + data)


@FUZZ
@given(st.sampled_from(WHOLE), st.data())
def test_pictures_cut_short(whole: bytes, data: st.DataObject) -> None:
    attempt(whole[: data.draw(st.integers(0, len(whole)))])


@FUZZ
@given(
    st.sampled_from(WHOLE),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 7)), min_size=1, max_size=30),
)
def test_pictures_with_turned_bits(whole: bytes, bits: list[tuple[int, int]]) -> None:
    turned = bytearray(whole)
    for at, bit in bits:
        turned[at % len(turned)] ^= 1 << bit
    attempt(bytes(turned))


@FUZZ
@given(
    st.sampled_from(WHOLE),
    st.integers(0, 63),
    st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\xff\xff", b"\0\0"]),
)
def test_pictures_with_absurd_numbers_in_their_heads(whole: bytes, at: int, number: bytes) -> None:
    attempt(whole[:at] + number + whole[at + len(number) :])
