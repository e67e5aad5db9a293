"""Where a crop lies around what may change."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from scenewright.config.local_images import AdapterSpec
from scenewright.core.images import ImageStore
from scenewright.core.layout import WORTH, crop_around
from scenewright.core.ports.backend import Reference, Start
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.tools.backends import tiny
from tests.tools.backends.conformance import RED

MULTIPLES = st.sampled_from([8, 16, 32])


@given(
    multiple=MULTIPLES,
    cells=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    box=st.tuples(*[st.floats(0, 1)] * 4),
    usual=st.sampled_from([(64, 64), (128, 64), (256, 256)]),
)
def test_a_crop_holds_what_may_change_and_fits_the_model(
    multiple: int, cells: tuple[int, int], box: tuple[float, ...], usual: tuple[int, int]
) -> None:
    width, height = (multiple * count for count in cells)
    left, right = sorted(round(share * width) for share in box[:2])
    top, bottom = sorted(round(share * height) for share in box[2:])
    mask = Image.new("L", (width, height))
    mask.paste(255, (left, top, right, bottom))
    found = crop_around(mask, multiple, usual)
    if left == right or top == bottom:
        assert found is None
    if found is None:
        return
    assert 0 <= found[0] <= left < right <= found[2] <= width
    assert 0 <= found[1] <= top < bottom <= found[3] <= height
    for begin, end, whole, side in (
        (found[0], found[2], width, usual[0]),
        (found[1], found[3], height, usual[1]),
    ):
        assert begin % multiple == (end - begin) % multiple == 0
        assert end - begin >= min(whole, side / 2)
    assert (found[2] - found[0]) * (found[3] - found[1]) <= WORTH * width * height


async def test_a_crop_is_put_back_in_its_place(tmp_path: Path, store: ImageStore) -> None:
    backend = DiffusersBackend(str(tiny.build_model(tmp_path / "model")))
    width, height = (2 * side for side in backend.features.default_size)
    picture = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    mask = Image.new("L", picture.size)
    mask.paste(255, (0, 0, width // 8, height // 8))
    start = Start(image=store.put(picture), strength=1.0, mask=store.put(mask), crop=True)
    request = RED.model_copy(update={"start": start, "width": width, "height": height})
    made = await backend.generate(request, store.get)
    assert made.image.size == picture.size
    changed = ImageChops.difference(made.image, picture).convert("L").getbbox()
    assert changed is not None
    assert changed[2] <= width // 4
    assert changed[3] <= height // 4
    await backend.aclose()


async def test_references_are_cropped_alike(tmp_path: Path, store: ImageStore) -> None:
    """What a reference shows beyond the crop has no influence; what it shows inside has."""
    model = tiny.build_model(tmp_path / "model")
    adapter = tiny.build_adapter(tmp_path / "adapter")
    backend = DiffusersBackend(str(model), ip_adapter=AdapterSpec(repository=str(adapter)))
    width, height = (4 * side for side in backend.features.default_size)
    mask = Image.new("L", (width, height))
    mask.paste(255, (0, 0, width // 8, height // 8))
    start = Start(
        image=store.put(Image.new("RGB", mask.size, "gray")),
        strength=0.9,
        mask=store.put(mask),
        crop=True,
    )

    async def drawn(colour: str, place: tuple[int, int, int, int]) -> bytes:
        shown = Image.new("RGB", mask.size, "gray")
        shown.paste(colour, place)
        reference = Reference(image=store.put(shown), weight=2.0)
        sizes = {"width": width, "height": height}
        request = RED.model_copy(
            update={"start": start, "references": (reference,), "guidance": 5.0, **sizes}
        )
        return (await backend.generate(request, store.get)).image.tobytes()

    corner, far = (0, 0, width // 8, height // 8), (width // 2, height // 2, width, height)
    plain = await drawn("gray", corner)
    assert await drawn("red", far) == plain
    assert await drawn("red", corner) != plain
    await backend.aclose()
