"""An image, really decoded."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec

from ..broken import Broken

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # among the others are some for which Pillow starts a program
PIXELS = 2 * 89_478_485  # above twice its own bound Pillow refuses, unless it is told otherwise
LONGEST = 200  # characters of what Pillow says


def can_decode() -> bool:
    return find_spec("PIL") is not None


def decode(data: bytes) -> None:
    """Raises Broken."""
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _bounded(*image.size)
                image.load()
        except Broken:
            raise
        except Image.DecompressionBombError as error:
            raise Broken("hostile", f"Pillow takes it for a bomb: {error}") from error
        except UnidentifiedImageError as error:
            if data[:2] in (b"II", b"MM"):  # TIFF is many formats, of which Pillow knows some
                return
            raise Broken("image", "Pillow finds no image in it") from error
        except Exception as error:  # whatever it raises, training would get it too
            words = " ".join(str(error).split())[:LONGEST] or type(error).__name__
            raise Broken("image", f"Pillow says: {words}") from error


def _bounded(width: int, height: int) -> None:
    if width * height > PIXELS:
        raise Broken("hostile", f"it announces {width:,} × {height:,} pixels; Pillow refuses more than {PIXELS:,}")
