"""The pictures of the report in docs/: report.png as a desktop shows it, report_phone.png as a phone does at night.

python experiments/pictures.py          from the records in results/; needs Chromium and headrace[dev]
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from headrace.analysis.report.folder import write_report

ROOT = Path(__file__).parents[1]
TAB = "minatar_5M_unguarded"
COLOURS = 128  # of a picture: text stays sharp, and the file is a third
LOOKS = {
    "report.png": {"viewport": {"width": 1180, "height": 860}},
    "report_phone.png": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "color_scheme": "dark"},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as programs:
        page = write_report(ROOT / "results", Path(folder) / "report").page
        browser = programs.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, look in LOOKS.items():
            opened = browser.new_page(**look)
            opened.goto(page.as_uri())
            opened.locator(f".tabs [data-opens='{TAB}']").click()
            opened.evaluate(f"document.getElementById('curves-{TAB}').scrollIntoView({{behavior: 'instant'}})")
            opened.locator(f"[data-chart='curve-{TAB}'] svg").wait_for()
            opened.wait_for_timeout(500)
            picture = Image.open(io.BytesIO(opened.screenshot())).convert("RGB")
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(ROOT / "docs" / name, optimize=True)
            print(f"docs/{name}: {picture.width} x {picture.height}")
        browser.close()


if __name__ == "__main__":
    main()
