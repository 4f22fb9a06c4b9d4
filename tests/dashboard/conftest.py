"""A real browser for the tests of the page."""

import os
import shutil

import pytest

NO_CHROMIUM = "there is no Chromium on this machine"  #: as tests/conftest.py looks for it
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    """The one headless Chromium of all tests of a process; they make contexts of their own.

    Where there is none, the tests are skipped, and the last lines of the run say so.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    found = os.environ.get("EVENFLOW_CHROMIUM") or found
    if found is None:
        pytest.skip(NO_CHROMIUM)
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=list(_ARGUMENTS))
        yield chromium
        chromium.close()
