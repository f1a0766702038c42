"""Images as Pillow and others write them: what Pillow refuses is reported, lost blocks too, and no healthy image is."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from harm import cuts, flips, holes, kinds, seen
from PIL import Image, features

from unstuck.checking.formats import images
from unstuck.checking.formats.images import IMAGE, zeroed
from unstuck.checking.notes import Wish

RANDOM = np.random.default_rng(0)
DECODE = Wish(decode=True)


def photo(width: int = 200, height: int = 150) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    waves = np.stack([(np.sin(x / 37 + part) + np.cos(y / 23 - part)) * 60 + 128 for part in range(3)], -1)
    noisy = waves + RANDOM.normal(0, 12, waves.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def product(side: int = 1600) -> Image.Image:
    """Something before a white wall, as in a shop: most of it is compressed to nearly nothing."""
    wall = Image.new("RGB", (side, side), (255, 255, 255))
    wall.paste(photo(200, 200), (side // 2, side // 2))
    return wall


def saved(picture: Image.Image, kind: str, **how: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **how)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">L", len(data)) + kind + data + struct.pack(">L", zlib.crc32(kind + data))


def interlaced() -> bytes:
    """Eight by eight grey pixels in the seven passes of Adam7."""
    rows = [(1, 1), (1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4)]
    data = b"".join(b"\0" + bytes(range(wide)) for wide, high in rows for _ in range(high))
    head = struct.pack(">2L5B", 8, 8, 8, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def with_thumbnail() -> bytes:
    """EXIF with a small JPEG in it, and kilobytes of padding, as cameras write it."""
    small = saved(photo(40, 30), "JPEG")
    return saved(photo(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + small + bytes(5000))


FRAMES = [photo(60, 40), photo(60, 40), photo(60, 40)]
PNG = saved(photo(), "PNG")
JPEG = saved(photo(), "JPEG", quality=85)
WEBP = saved(photo(), "WEBP")
HEALTHY = {
    "jpeg": lambda: JPEG,
    "jpeg-progressive": lambda: saved(photo(), "JPEG", progressive=True),
    "jpeg-optimized": lambda: saved(photo(), "JPEG", optimize=True, subsampling=0),
    "jpeg-grey": lambda: saved(photo().convert("L"), "JPEG"),
    "jpeg-cmyk": lambda: saved(photo().convert("CMYK"), "JPEG"),
    "jpeg-restarts": lambda: saved(photo(), "JPEG", restart_marker_blocks=4),
    "jpeg-exif": with_thumbnail,
    "jpeg-icc": lambda: saved(photo(), "JPEG", icc_profile=bytes(70_000)),
    "jpeg-mpf": lambda: saved(photo(), "MPO", save_all=True, append_images=[photo(80, 60)]),
    "jpeg-trailer": lambda: JPEG + bytes(2000) + b"SEFT" + JPEG[50:900] + bytes(9000),
    "jpeg-flat": lambda: saved(Image.new("RGB", (2000, 2000)), "JPEG", optimize=True),
    "jpeg-flat-progressive": lambda: saved(Image.new("L", (2000, 2000), 255), "JPEG", progressive=True),
    "jpeg-product": lambda: saved(product(), "JPEG", optimize=True),
    "jpeg-product-progressive": lambda: saved(product(), "JPEG", progressive=True, quality=40),
    "png": lambda: PNG,
    "png-16": lambda: saved(Image.fromarray(RANDOM.integers(0, 60_000, (40, 40), dtype=np.uint16)), "PNG"),
    "png-palette": lambda: saved(photo().convert("P"), "PNG", transparency=3),
    "png-interlaced": interlaced,
    "png-animated": lambda: saved(FRAMES[0], "PNG", save_all=True, append_images=FRAMES[1:]),
    "png-trailer": lambda: PNG + b"a comment of some tool" + bytes(4000),
    "png-black": lambda: saved(Image.new("RGB", (3000, 3000)), "PNG"),
    "png-uncompressed": lambda: saved(Image.new("RGB", (300, 300)), "PNG", compress_level=0),
    "webp": lambda: WEBP,
    "webp-lossless": lambda: saved(photo(), "WEBP", lossless=True),
    "webp-alpha": lambda: saved(photo().convert("RGBA"), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0" + bytes(3001)),
    "webp-animated": lambda: saved(FRAMES[0], "WEBP", save_all=True, append_images=FRAMES[1:]),
    "webp-flat": lambda: saved(Image.new("RGB", (3000, 3000)), "WEBP"),
    "gif": lambda: saved(FRAMES[0], "GIF", save_all=True, append_images=FRAMES[1:]),
    "bmp": lambda: saved(photo(), "BMP"),
    "tiff": lambda: saved(photo(), "TIFF", compression="tiff_lzw"),
    "tiff-float": lambda: saved(Image.fromarray(RANDOM.normal(size=(30, 30)).astype(np.float32)), "TIFF"),
}
NAMES = {"jpeg": "a.jpg", "png": "a.png", "webp": "a.webp", "gif": "a.gif", "bmp": "a.bmp", "tiff": "a.tiff"}


def refused(data: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
    except Exception:  # noqa: BLE001
        return True
    return False


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_image_has_no_fault(name, tmp_path):
    data, path = HEALTHY[name](), NAMES[name.partition("-")[0]]

    file = seen(tmp_path, path, data)

    assert (file.format, file.faults, file.samples, file.decoded) == ("image", [], 1, 0)
    file = seen(tmp_path, path, data, DECODE)
    assert (file.faults, file.decoded) == ([], 1)
    assert IMAGE.decoded(memoryview(data)) == ""
    assert zeroed(memoryview(data)) is None


@pytest.mark.parametrize("name", ["jpeg-flat", "jpeg-product", "jpeg-product-progressive", "png-black", "webp-flat"])
def test_what_is_of_one_colour_does_hold_zeros(name):
    """So the test above says something about them."""
    assert HEALTHY[name]().find(bytes(512)) > 0


@pytest.mark.parametrize("data", [b"\xff\x0a" + bytes(90), b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(90)])
def test_an_image_of_another_kind_is_no_damage(data, tmp_path):
    assert kinds(tmp_path, "a.jpg", data, DECODE) == []


def test_avif_is_no_damage(tmp_path):
    if not features.check("avif"):
        pytest.skip("this Pillow writes no AVIF")

    assert kinds(tmp_path, "a.jpg", saved(photo(), "AVIF"), DECODE) == []


@pytest.mark.parametrize("name", ["jpeg", "jpeg-progressive", "jpeg-exif", "jpeg-mpf", "png", "webp", "webp-lossless"])
def test_every_cut_that_pillow_refuses_is_reported_without_decoding(name, tmp_path):
    data, path = HEALTHY[name](), NAMES[name.partition("-")[0]]
    for short in cuts(data, 60):
        if refused(short):
            (fault,) = seen(tmp_path, path, short).faults
            assert (fault.kind, fault.lost) == ("image", 1)
            assert IMAGE.decoded(short) != ""


def test_every_altered_byte_of_a_png_is_found_without_decoding(tmp_path):
    for at, bad in flips(PNG, 300):
        assert kinds(tmp_path, "a.png", bad) == ["image"], f"byte {at}"


@pytest.mark.parametrize("name", ["jpeg", "jpeg-progressive", "webp", "webp-lossless", "gif", "bmp", "tiff"])
def test_what_pillow_refuses_is_found_by_decoding(name, tmp_path):
    data, path = HEALTHY[name](), NAMES[name.partition("-")[0]]
    for at, bad in flips(data[:2000], 120):
        if refused(bad + data[2000:]):
            assert kinds(tmp_path, path, bad + data[2000:], DECODE) != [], f"byte {at}"


def test_every_lost_block_of_a_jpeg_is_found_without_decoding(tmp_path):
    data = saved(photo(640, 480), "JPEG", quality=90)
    scan = data.index(b"\xff\xda") + 14
    silent = 0
    for at, lost in holes(data[scan:-2], 60, 512):
        bad = data[:scan] + lost + data[-2:]
        silent += not refused(bad)

        (fault,) = seen(tmp_path, "a.jpg", bad).faults

        assert fault.kind == "zeros"
        assert 0 <= scan + at - fault.at <= 2  # what stood before it may end in a zero, too
        assert zeroed(memoryview(bad)) == fault.at
    assert silent > 50  # most decode to grey without a word


@pytest.mark.parametrize("name", ["jpeg-progressive", "jpeg-product", "webp", "webp-lossless"])
def test_lost_blocks_are_found_where_zeros_may_be_healthy(name, tmp_path):
    data = HEALTHY[name]()
    start = 2048  # behind all headers
    for at, bad in holes(data[start:-600], 20, 512, step=512):
        if not (data[start + at - 1] and data[start + at + 512]):
            continue

        faults = seen(tmp_path, NAMES[name.partition("-")[0]], data[:start] + bad + data[-600:]).faults

        assert [(one.kind, one.at) for one in faults] in ([("zeros", start + at)], [("image", None)])


def test_a_lost_block_with_the_headers_of_a_jpeg_is_found():
    data = bytearray(JPEG)
    data[20:1500] = bytes(1480)

    assert zeroed(memoryview(data)) == 20


def test_lost_blocks_of_a_png_are_found():
    for at, bad in holes(PNG, 40, 700):
        if at > 100:
            assert 0 <= at - zeroed(bad) <= 3


@pytest.mark.parametrize(
    ("name", "data"), [("a.jpg", bytes(3000)), ("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n"), ("a.webp", b"RIFF")]
)
def test_what_is_no_image_is_not_opened_as_one(name, data, tmp_path):
    assert kinds(tmp_path, name, data, DECODE) == ["image"]


def test_an_image_that_announces_far_too_many_pixels_is_hostile(tmp_path):
    # Given headers that lie about the size
    head = struct.pack(">2L5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    large = PNG[:8] + chunk(b"IHDR", head) + PNG[33:]
    frame = JPEG.index(b"\xff\xc0") + 5

    # When and then, without decoding anything
    assert kinds(tmp_path, "a.png", large) == ["hostile"]
    assert kinds(tmp_path, "a.jpg", JPEG[:frame] + b"\xff\xff\xff\xff" + JPEG[frame + 4 :]) == ["hostile"]


def test_what_pillow_takes_for_a_bomb_is_not_decoded(tmp_path):
    data = saved(Image.new("1", (14_000, 14_000)), "PNG")

    (fault,) = seen(tmp_path, "a.png", data, DECODE).faults

    assert (fault.kind, kinds(tmp_path, "a.png", data)) == ("hostile", [])


def test_without_pillow_the_structure_is_still_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "can_decode", lambda: False)

    assert kinds(tmp_path, "a.jpg", JPEG[:-400], DECODE) == ["image"]
    assert kinds(tmp_path, "a.png", PNG[:-4000], DECODE) == ["image"]
    assert seen(tmp_path, "a.jpg", JPEG, DECODE).decoded == 0


def test_an_image_that_is_too_large_to_be_held_is_unread_and_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MOST", 1000)

    file = seen(tmp_path, "a.jpg", JPEG)

    assert (file.faults, file.samples) == ([], None)
    assert "not held in memory" in file.unread


@pytest.mark.parametrize("cut", [1, 4, 11, 12])
def test_a_png_that_lacks_its_last_chunk_only_is_what_decoders_make_of_it(tmp_path, cut):
    Image.open(io.BytesIO(PNG[:-cut])).load()

    assert kinds(tmp_path, "a.png", PNG[:-cut], DECODE) == []
    assert kinds(tmp_path, "a.png", PNG[:-cut]) == (["image"] if cut > 6 else [])  # more may be missing there
