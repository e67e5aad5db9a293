"""Images by content: run state, events and requests name an image by its hash.

An :class:`ImageStore` is a folder::

    <sha256 of the PNG bytes>.png       one file per image
    requests/<request key>.json         image of a request, and what it took

Every file appears whole or not at all: it is written beside its place, flushed to the disk and
renamed. A store with a :class:`~scenewright.core.flushing.Flusher` leaves the flushing to it, so
that a power cut may lose or damage the last files. Reading checks the content against the name.
Decoded images are kept in memory while their file stays unchanged.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
import struct
import threading
import time
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from scenewright.core.errors import ScenewrightError
from scenewright.core.flushing import Flusher, flush

_Mark = tuple[int, int, int]
_PREVIEW_SIDE = 384


class ImageMemory:
    """Cache of the latest decoded images, up to a number of bytes; thread-safe."""

    def __init__(self, limit: int) -> None:
        """``limit`` is in bytes of RGB pixels; 0 keeps nothing."""
        self.limit = limit
        self._pictures: OrderedDict[Path, tuple[Image.Image, _Mark]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, file: Path, image: Image.Image) -> None:
        """Keep ``image`` as the content of ``file``; the caller must not change it."""
        mark = _mark(file) if _size(image) <= self.limit else None
        if mark is None:
            return
        with self._lock:
            self._pictures[file] = (image, mark)
            self._pictures.move_to_end(file)
            while sum(_size(kept) for kept, _ in self._pictures.values()) > self.limit:
                self._pictures.popitem(last=False)

    def get(self, file: Path) -> Image.Image | None:
        """Return a copy of the image in ``file``; None if it changed or is not known."""
        with self._lock:
            found = self._pictures.get(file)
            if found is None:
                return None
            image, mark = found
            if _mark(file) != mark:
                del self._pictures[file]
                return None
            self._pictures.move_to_end(file)
        return image.copy()


def _mark(file: Path) -> _Mark | None:
    """Return a fingerprint of a file's state, to notice changes."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _size(image: Image.Image) -> int:
    return 3 * image.width * image.height


MAX_SIDE = 4096
MAX_FILE_BYTES = 256 * 2**20
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""Ends of names of picture files, in lower case; people write them in any."""

_NAME = re.compile(r"[0-9a-f]{64}")
_STALE_SECONDS = 3600.0
_ORIENTATION = 0x0112
_FIRST_ON_ITS_SIDE = 5
"""EXIF orientations from here on exchange width and height."""
_UNREADABLE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)


class ImageError(ScenewrightError, ValueError):
    """An image that cannot be read or kept; the message says which one and what to do."""


def png_bytes(image: Image.Image) -> bytes:
    """Return the PNG file of ``image`` as RGB, without metadata: equal pixels give equal bytes.

    Raises ``ImageError`` for a mode without a defined 8-bit range or a side over ``MAX_SIDE``.
    """
    return _encode(_plain_rgb(image))


def webp_bytes(image: Image.Image, side: int, quality: int = 82) -> bytes:
    """Return ``image`` as a WebP file, made smaller where a side is longer than ``side`` pixels."""
    if max(image.size) > side:
        image = image.copy()
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality)
    return buffer.getvalue()


def preview_bytes(image: Image.Image) -> bytes:
    """Return ``image`` as the file of a :attr:`~.ports.backend.GenerationStep.preview`."""
    return webp_bytes(image, _PREVIEW_SIDE, quality=70)


def hash_of_image(image: Image.Image) -> str:
    """Return the content hash of ``image``: SHA-256 (hex) of :func:`png_bytes`."""
    return hashlib.sha256(png_bytes(image)).hexdigest()


def _plain_rgb(image: Image.Image) -> Image.Image:
    """Return ``image`` as RGB without the colour profile, resolution or text of the old one."""
    rgb = to_rgb(image)
    return Image.frombytes("RGB", rgb.size, rgb.tobytes())


def _encode(bare: Image.Image) -> bytes:
    buffer = io.BytesIO()
    bare.save(buffer, "PNG", optimize=False, compress_level=6)
    return buffer.getvalue()


def to_rgb(image: Image.Image, name: str = "the image") -> Image.Image:
    """Return ``image`` as 8-bit RGB; what is transparent becomes white.

    Raises ``ImageError`` for the modes ``I`` and ``F`` (their range is not known) and for
    sides of 0 or over ``MAX_SIDE`` pixels.
    """
    _check_size(image.size, name)
    if image.mode in ("I", "F"):
        raise ImageError(
            f"{name} has {image.mode!r} pixels, whose range is not known: "
            "convert it to 8-bit RGB first"
        )
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


EVEN = 2
"""Most that the values of a channel (0 to 255) differ in a picture of one even colour: files of
lossy formats round."""
_FEW = (16, 16)
"""Pixels that are looked at first: they tell nearly every picture of something at once."""


def nothing_drawn(image: Image.Image) -> str:
    """Return why nothing can be judged in ``image``; empty for a picture of anything.

    A picture of one even colour is what models give that computed no numbers, that filtered their
    output or that were cut off; judges that look for nothing in it may find everything.
    """
    shades: Any = ()
    try:
        for some in (image.resize(_FEW, Image.Resampling.NEAREST), image):
            shades = to_rgb(some, "the picture").getextrema()
            if any(high - low > EVEN for low, high in shades):
                return ""
    except ImageError as error:
        return str(error)
    colour = "#" + "".join(f"{low:02x}" for low, _ in shades)
    return f"nothing is drawn on the picture: all of it is {NAMED.get(colour, colour)}"


NAMED = {"#000000": "black", "#ffffff": "white"}


def load_image(path: str | os.PathLike[str]) -> Image.Image:
    """Load a user's image file: RGB, upright as its EXIF tag says, transparency on white.

    Raises ``ImageError``, with the file's name and a remedy, for what is missing, too
    large, damaged or no image (``FORMATS`` are read).
    """
    return _decode(file_bytes(path), str(Path(path)))[0]


def is_image_file(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a file that begins as an image; it may be damaged further on."""
    try:
        with Image.open(path, formats=FORMATS):
            return True
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return True
    except _UNREADABLE:
        return False


def picture_named(folder: Path, name: str) -> Path | None:
    """Return the picture file of that name, with whatever ending, in ``folder``."""
    places = (folder / f"{name}{as_written}" for e in ENDINGS for as_written in (e, e.upper()))
    return next((place for place in places if place.is_file()), None)


def upright_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return width and height of an image file as :func:`load_image` gives it, from its header.

    Raises ``ImageError`` for what is missing or no image.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            width, height = image.size
            turned = image.getexif().get(_ORIENTATION, 1) >= _FIRST_ON_ITS_SIDE
    except _UNREADABLE as error:
        raise ImageError(f"{os.fspath(path)} is not a picture ({error})") from error
    return (height, width) if turned else (width, height)


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return what a user's file holds; raises as :func:`load_image`, but does not decode it."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ImageError(
                f"{file} has {file.stat().st_size} bytes, the limit is {MAX_FILE_BYTES}: "
                "save it smaller"
            )
        return file.read_bytes()
    except FileNotFoundError:
        raise ImageError(f"there is no file {file}: check the path") from None
    except IsADirectoryError:
        raise ImageError(f"{file} is a folder: name an image file in it") from None
    except OSError as error:
        raise ImageError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ImageError(f"{str(path)!r} is not a file name: {error}") from error


def read_image(data: bytes, name: str) -> Image.Image:
    """Return the picture in a file given as bytes, as :func:`load_image`.

    Errors call it ``name``.
    """
    return _decode(data, name)[0]


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"{name} is empty ({width}×{height} pixels)")
    if width > MAX_SIDE or height > MAX_SIDE:
        raise ImageError(
            f"{name} has {width}×{height} pixels, the limit is {MAX_SIDE}×{MAX_SIDE}: "
            "scale it down first"
        )


def _decode(data: bytes, name: str) -> tuple[Image.Image, bool]:
    """Return the picture in ``data``.

    The second value says whether ``data`` is a PNG file of exactly these RGB pixels.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ImageError(f"{name} has {len(data)} bytes, the limit is {MAX_FILE_BYTES}")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        _check_size(image.size, name)
        image.load()
        plain = (
            image.format == "PNG"
            and image.mode == "RGB"
            and getattr(image, "n_frames", 1) == 1
            and "transparency" not in image.info
            and _ORIENTATION not in image.getexif()
        )
        return to_rgb(ImageOps.exif_transpose(image), name), plain
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(f"{name} is not an image: use one of {', '.join(FORMATS)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(
            f"{name} claims far more pixels than {MAX_SIDE}×{MAX_SIDE}: scale it down first"
        ) from None
    except _UNREADABLE as error:
        raise ImageError(f"{name} is damaged ({error}): download or save it again") from error


class ImageStore:
    """Images and remembered requests in one folder; safe for many threads and processes."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        flusher: Flusher | None = None,
        held_bytes: int = 0,
    ) -> None:
        """Open ``folder`` and create it if needed.

        With a ``flusher`` files are safe from a power cut soon after they are stored; without one,
        at once. ``held_bytes`` is the size of the memory cache of decoded pixels. Raises
        ``ImageError`` if the folder cannot be used.
        """
        self.folder = Path(folder)
        self._flusher = flusher
        self._memory = ImageMemory(held_bytes)
        self._requests = self.folder / "requests"
        try:
            self._requests.mkdir(parents=True, exist_ok=True)
            # Drafts that a killed process left; young ones may be another's at work.
            limit = time.time() - _STALE_SECONDS
            for draft in (*self.folder.glob(".*.tmp"), *self._requests.glob(".*.tmp")):
                with contextlib.suppress(OSError):
                    if draft.stat().st_mtime < limit:
                        draft.unlink()
        except OSError as error:
            raise self._failed(error) from error

    def put(self, image: Image.Image) -> str:
        """Keep ``image`` as RGB PNG and returns its hash. The same pixels give the same hash."""
        bare = _plain_rgb(image)
        image_hash = self._keep(_encode(bare))
        self._memory.keep(self.path(image_hash), bare)
        return image_hash

    def put_bytes(self, data: bytes) -> str:
        """Keep an image file given as bytes and returns the hash of what is kept.

        An RGB PNG is kept as it is; any other format or mode is kept as RGB PNG.
        Raises ``ImageError`` if ``data`` is not a sound image.
        """
        image, plain = _decode(data, "the given data")
        return self._keep(data) if plain else self.put(image)

    def get(self, image_hash: str) -> Image.Image:
        """Return the image of that hash: RGB, loaded, the caller's own copy.

        Raises ``ImageError`` if the hash is malformed or unknown, or the file is corrupt.
        """
        held = self.cached(image_hash)
        if held is not None:
            return held
        image = _decode(self._read(image_hash), str(self.path(image_hash)))[0]
        self._memory.keep(self.path(image_hash), image.copy())
        return image

    def cached(self, image_hash: str) -> Image.Image | None:
        """Return what :meth:`get` gives if that needs no reading, else None.

        An image is held for as long as its file stays as it was when it was kept or read.
        Raises ``ImageError`` if the hash is malformed.
        """
        return self._memory.get(self.path(image_hash))

    def path(self, image_hash: str) -> Path:
        """Return the path of the image of that hash, whether it exists or not.

        Raises ``ImageError`` if malformed.
        """
        return self.folder / f"{_checked(image_hash, 'image hash')}.png"

    def __contains__(self, image_hash: object) -> bool:
        """Return whether a file of that name is there (its content is checked when it is read)."""
        if not isinstance(image_hash, str) or not _NAME.fullmatch(image_hash):
            return False
        return (self.folder / f"{image_hash}.png").is_file()

    def remember(self, request_key: str, image_hash: str, meta: dict[str, Any]) -> None:
        """Note, durably, that the request of that key gave that image.

        ``request_key`` is a SHA-256 in hex (``GenerationRequest.key``); ``meta`` is kept as
        JSON. Raises ``ImageError`` if a name is malformed, the image is not in the store or
        ``meta`` is not plain JSON.
        """
        place = self._request_path(request_key)
        if image_hash not in self:
            self.path(image_hash)
            raise ImageError(f"image {image_hash} is not in {self.folder}: put it there first")
        try:
            text = json.dumps({"image": image_hash, "meta": meta}, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ImageError(
                f"the notes on request {request_key} are not plain JSON ({error}): "
                "use text, finite numbers, lists and dictionaries"
            ) from error
        self._write(place, text.encode())

    def noted(self, request_key: str) -> bool:
        """Return whether there may be something to :meth:`recall`: a note, not read yet.

        Raises ``ImageError`` if the key is malformed.
        """
        return self._request_path(request_key).exists()

    def sound(self, image_hash: str) -> bool:
        """Return whether the store has the image, and its content matches its hash."""
        try:
            self._read(image_hash)
        except ImageError:
            return False
        return True

    def recall(self, request_key: str) -> tuple[str, dict[str, Any]] | None:
        """Return ``(image hash, meta)`` of a remembered request; None if it must be done again.

        A note or an image that is missing or corrupt counts as not remembered.
        Raises ``ImageError`` if the key is malformed.
        """
        place = self._request_path(request_key)
        try:
            note = json.loads(place.read_bytes())
            image_hash, meta = note["image"], note["meta"]
            self._read(image_hash)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (image_hash, meta) if isinstance(meta, dict) else None

    def _request_path(self, request_key: str) -> Path:
        return self._requests / f"{_checked(request_key, 'request key')}.json"

    def _read(self, image_hash: str) -> bytes:
        file = self.path(image_hash)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            raise ImageError(
                f"no image {image_hash} in {self.folder}: it was never stored there or was removed"
            ) from None
        except OSError as error:
            raise ImageError(f"{file} cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != image_hash:
            raise ImageError(
                f"{file} is corrupt: its content does not match its name. "
                "Delete it; what it was drawn from draws it again"
            )
        return data

    def _keep(self, data: bytes) -> str:
        image_hash = hashlib.sha256(data).hexdigest()
        file = self.path(image_hash)
        with contextlib.suppress(OSError):
            if file.read_bytes() == data:
                return image_hash
        self._write(file, data)
        return image_hash

    def _write(self, place: Path, data: bytes) -> None:
        draft = place.with_name(f".{place.stem}.{secrets.token_hex(8)}.tmp")
        try:
            try:
                with open(draft, "xb", buffering=0) as file:
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(file.fileno(), rest) :]
                    if self._flusher is None:
                        os.fsync(file.fileno())
                os.replace(draft, place)
            except BaseException:
                with contextlib.suppress(OSError):
                    draft.unlink()
                raise
            if self._flusher is None:
                # A rename is durable only after its folder is flushed.
                with contextlib.suppress(OSError):
                    flush(place.parent)
            else:
                self._flusher.note(place, place.parent)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> ImageError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return ImageError(
                f"no space left for images in {self.folder}: free some, or choose another folder. "
                "Nothing stored before is harmed"
            )
        return ImageError(
            f"cannot write in {self.folder}: {error.strerror or error}. "
            "Check that it is a folder you may write in, or choose another"
        )


def _checked(name: str, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ImageError(f"{name!r} is not a valid {what}: it must be 64 digits of 0-9 and a-f")
    return name
