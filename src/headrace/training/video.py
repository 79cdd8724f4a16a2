"""An episode's pictures as a video: an .mp4 by ffmpeg, a .gif or .webp by Pillow, or an animated .png by itself."""

from __future__ import annotations

import struct
import subprocess
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np

from headrace.errors import BadSetting, HeadraceError
from headrace.runs.files import storage_errors, write_atomically

BY_PILLOW = {".gif": "GIF", ".webp": "WEBP"}  # as Pillow names them
KINDS = (".mp4", *BY_PILLOW, ".png")
PICTURES_PER_SECOND = 15
FFMPEG, SMALLEST_SIDE = "ffmpeg", 320  # a program that is asked to; pixels


def beside(run: Path, step: int) -> Path:
    """Where a video of a run at that step belongs; in the present folder where the run has none of its own."""
    kind = "mp4" if which(FFMPEG) else "gif" if find_spec("PIL") else "png"
    name = f"episode_at_{step}.{kind}"
    return run / name if run.is_dir() else Path(f"{run.name}_{name}")


def require(out: Path) -> None:
    """Refuses a video that cannot be written, before anything is played for it."""
    if out.suffix.lower() not in KINDS:
        raise BadSetting(f"a video's name must end in {', '.join(KINDS)}, got {str(out)!r}")
    if out.suffix.lower() == ".mp4" and not which(FFMPEG):
        raise HeadraceError("an .mp4 needs the program ffmpeg: install it, or name a .gif")
    if out.suffix.lower() in BY_PILLOW and find_spec("PIL") is None:
        raise HeadraceError(f"a {out.suffix} needs the pillow package: pip install 'headrace[plots]', or name a .png")


def write(frames: list[np.ndarray], out: Path) -> None:
    kind = out.suffix.lower()
    data = _mp4(frames) if kind == ".mp4" else _png(frames) if kind == ".png" else _by_pillow(frames, BY_PILLOW[kind])
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, data)


def _mp4(frames: list[np.ndarray]) -> bytes:
    """The pictures as H.264, which wants even sides; small ones are enlarged without blurring their pixels."""
    height, width = frames[0].shape[:2]
    scale = 2 * max(1, round(SMALLEST_SIDE / 2 / max(height, width)))
    with tempfile.TemporaryDirectory(prefix="headrace-video-") as folder:
        made = Path(folder) / "video.mp4"
        command = [
            FFMPEG, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
            "-r", str(PICTURES_PER_SECOND), "-i", "-", "-vf", f"scale=iw*{scale}:ih*{scale}:flags=neighbor",
            "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(made),
        ]  # fmt: skip
        pixels = b"".join(np.ascontiguousarray(frame, np.uint8).tobytes() for frame in frames)
        done = subprocess.run(command, input=pixels, capture_output=True, check=False)
        if done.returncode or not made.is_file():
            raise HeadraceError(f"ffmpeg could not write the video: {done.stderr.decode(errors='replace').strip()}")
        return made.read_bytes()


def _by_pillow(frames: list[np.ndarray], kind: str) -> bytes:
    from io import BytesIO

    from PIL import Image

    pictures = [Image.fromarray(frame) for frame in frames]
    data = BytesIO()
    duration = 1000 // PICTURES_PER_SECOND
    pictures[0].save(data, kind, save_all=True, append_images=pictures[1:], duration=duration, loop=0)
    return data.getvalue()


def _png(frames: list[np.ndarray]) -> bytes:
    """An animated PNG (APNG), which browsers play and other programs take for its first picture."""
    height, width = frames[0].shape[:2]
    parts = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    parts.append(_chunk(b"acTL", struct.pack(">II", len(frames), 0)))
    number = 0  # of the chunks that make the animation
    for i, frame in enumerate(frames):
        lines = np.pad(np.ascontiguousarray(frame, np.uint8).reshape(height, -1), ((0, 0), (1, 0)))  # filter 0 each
        pixels, control = zlib.compress(lines.tobytes()), (number, width, height, 0, 0, 1, PICTURES_PER_SECOND, 0, 0)
        parts.append(_chunk(b"fcTL", struct.pack(">IIIIIHHBB", *control)))
        parts.append(_chunk(b"fdAT", struct.pack(">I", number + 1) + pixels) if i else _chunk(b"IDAT", pixels))
        number += 2 if i else 1
    return b"\x89PNG\r\n\x1a\n" + b"".join([*parts, _chunk(b"IEND", b"")])


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
