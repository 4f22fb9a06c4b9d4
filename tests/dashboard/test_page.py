"""The page in a real browser: clicked through, used by keyboard, with hostile keys, and at size."""

import contextlib

import numpy as np
import pytest

pytest.importorskip("fastapi")

from evenflow.dashboard.consumers import ConsumerLag
from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.serving import PageServer
from evenflow.dashboard.sources import FleetStatus, Sources
from evenflow.state import Checkpoint
from evenflow.state.metrics import put_metrics
from evenflow.storage import storage_at
from recorded_batches import HOSTILE, batch_metrics, write_checkpoint

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-nobody-guesses"
PATIENCE = 30_000  # milliseconds; the machine may be busy
LONGEST_TASK = 1500  # milliseconds in which the page may not answer, on a busy machine of two cores

_WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: "longtask", buffered: true });
"""


@contextlib.contextmanager
def served(*locations):
    queries = [QueryHistory(str(one), storage_at(one)) for one in locations]
    with PageServer(Sources(queries, every=0.1), TOKEN) as server:
        yield server


@contextlib.contextmanager
def opened(browser, url, **options):
    """A page that asks nobody but its server, and that meets no error."""
    options = {"viewport": {"width": 1400, "height": 900}, "reduced_motion": "reduce", **options}
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    problems, asked = [], set()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if _is_problem(said) else None)
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    page.add_init_script(_WATCH)
    page.goto(url)
    try:
        yield page
        assert problems == []
        assert asked == {url.split("/")[2]}
        assert page.evaluate("window.hacked") is None
    finally:
        context.close()


def _is_problem(said):
    """A question that the server refuses is no fault of the page: it shows the refusal."""
    return said.type == "error" and "/api/queries/" not in said.location.get("url", "")


def text_of(page, selector):
    return page.locator(selector).first.inner_text()


def wait(page, expression):
    """Until it is true; the page's policy forbids playwright's own way, which evaluates text in it."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} is still false; the page: {page.inner_text('main')[:500]}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints")
    write_checkpoint(path / "hits", 60, 12)
    write_checkpoint(path / "orders", 9, 5)
    return path


def test_the_address_opens_the_page_and_the_token_leaves_it(browser, folder):
    with served(folder / "hits") as server, opened(browser, server.url) as page:
        page.wait_for_selector(".tile")
        assert "token" not in page.url
        assert page.title() == "hits · evenflow"
        page.reload()
        page.wait_for_selector(".tile")
        cookie = page.context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""


def test_partitions_that_follow_the_load_have_charts_and_a_reason(browser, tmp_path):
    write_checkpoint(tmp_path / "scaled", 6, 4)
    storage, rng = storage_at(tmp_path / "scaled").under("evenflow"), np.random.default_rng(1)
    for batch, partitions in enumerate((4, 4, 4, 8, 8, 8)):
        scaling = {"load": 0.97 - 0.1 * batch, "partitions": 8, "reason": HOSTILE[0]}
        one = batch_metrics(batch, partitions, rng, began=1.79e9 + 10 * batch, scaling=scaling)
        put_metrics(storage, one | {"planned_partitions": partitions})
    with served(tmp_path / "scaled") as server, opened(browser, server.url) as page:
        page.wait_for_selector(".tile")
        wait(page, "document.body.innerText.includes('Share of the time that the busiest')")
        text = page.inner_text("main")
        assert "Partitions\n" in text
        assert "47 %" in text  # the load of the last batch
        assert HOSTILE[0] in text  # its reason, as text
        assert "4 → 8 partitions" in text


def test_without_the_token_there_is_a_sentence_and_nothing_else(browser, folder):
    with served(folder / "hits") as server:
        context = browser.new_context()
        page = context.new_page()
        answer = page.goto(f"http://127.0.0.1:{server.port}/")
        assert answer.status == 401
        assert "open the address that `evenflow dashboard` printed" in page.inner_text("body")
        assert page.goto(f"http://127.0.0.1:{server.port}/api/overview").status == 401
        context.close()


def test_everything_can_be_clicked(browser, folder):
    with served(folder / "hits", folder / "orders") as server, opened(browser, server.url) as page:
        page.wait_for_selector("#partitions canvas")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('batch 59')")
        assert "12 partitions, busiest first" in text_of(page, "#partitions h2")
        assert text_of(page, "#changes tbody tr:first-child").split("\t")[1] == "40"

        page.click("#partitions button[aria-label='The batch before']")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('batch 58')")
        page.fill("#partitions input", "7")
        page.press("#partitions input", "Enter")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('batch 7')")
        page.fill("#partitions input", "7000")
        page.press("#partitions input", "Enter")
        wait(
            page,
            "document.querySelector('#partitions .problem').textContent.includes('batch 7000')",
        )
        page.click("#partitions button:has-text('newest')")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('batch 59')")
        page.click("#partitions button:has-text('state')")
        assert page.get_attribute("#partitions button:has-text('state')", "aria-pressed") == "true"
        page.click("#changes tbody tr:nth-child(2)")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('batch 20')")

        page.locator(".u-over").first.scroll_into_view_if_needed()
        over = page.locator(".u-over").first.bounding_box()
        page.mouse.move(over["x"] + over["width"] * 0.25, over["y"] + 60)
        page.mouse.down()
        page.mouse.move(over["x"] + over["width"] * 0.5, over["y"] + 60, steps=5)
        page.mouse.up()
        wait(page, "!document.querySelector('main h2').textContent.includes(' 60 batches')")
        page.keyboard.press("Escape")
        wait(page, "document.querySelector('main h2').textContent.includes(' 60 batches')")
        page.select_option("select[aria-label='Time range']", label="last 10 minutes")
        page.click("button:has-text('Show all')", force=True)

        page.click("nav a:has-text('orders')")
        wait(page, "document.title === 'orders · evenflow'")
        wait(page, "document.querySelector('#partitions h2').textContent.includes('5 partitions')")
        for theme in ("light", "dark", "auto"):
            page.click("#theme")
            assert text_of(page, "#theme") == f"theme: {theme}"


def test_a_what_if_is_answered_in_the_page(browser, folder):
    with served(folder / "hits") as server, opened(browser, server.url) as page:
        page.wait_for_selector("#what-if select")
        page.select_option("#what-if select", "key")
        page.fill("#what-if input[name=partitions]", "6")
        page.click("#what-if button")
        page.wait_for_selector("#what-if tbody tr:nth-child(2)")
        rows = page.locator("#what-if tbody tr").all_inner_texts()
        assert rows[0].startswith("now: table, measured in batch 59\t12\t")
        assert rows[1].startswith("key\t6\t")
        page.select_option("#what-if select", "table")
        page.fill("#what-if input[name=theta]", "0.0001")
        assert page.is_enabled("#what-if input[name=theta]")
        page.fill("#what-if input[name=partitions]", "5000")
        page.click("#what-if button")  # the browser itself refuses this one
        assert page.locator("#what-if tbody tr").count() == 2


def test_the_keyboard_is_enough(browser, folder):
    with served(folder / "hits", folder / "orders") as server, opened(browser, server.url) as page:
        page.wait_for_selector("#partitions canvas[aria-valuetext]")
        reached = []
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    "(e => e.getAttribute('aria-label') || e.textContent.trim().slice(0, 20) || e.name)"
                    "(document.activeElement)"
                )
            )
        for wanted in ("Partitions, busiest first", "Time range", "Ask", "Batch", "rows", "newest"):
            assert wanted in reached
        assert any(one.startswith("orders") for one in reached)
        page.focus("#partitions canvas")
        slider = page.locator("#partitions canvas")
        page.keyboard.press("End")
        assert slider.get_attribute("aria-valuenow") == "12"
        page.keyboard.press("ArrowLeft")
        assert slider.get_attribute("aria-valuetext").startswith("No. 11: partition")
        page.keyboard.press("Home")
        assert slider.get_attribute("aria-valuenow") == "1"
        page.focus("nav a:has-text('orders')")
        page.keyboard.press("Enter")
        wait(page, "document.title === 'orders · evenflow'")


def test_hostile_keys_and_names_stay_text(browser, tmp_path):
    name = '<b onmouseover="window.hacked=1">hits</b>'
    write_checkpoint(tmp_path, 3, 4, keys=HOSTILE)
    rng = np.random.default_rng(0)
    more = {"name": name, "scheme": "<i>key</i>", "reason": "<img src=x onerror=window.hacked=1>"}
    metrics = batch_metrics(3, 4, rng, keys=HOSTILE, **more)
    put_metrics(storage_at(tmp_path).under("evenflow"), metrics)
    with served(tmp_path) as server, opened(browser, server.url) as page:
        page.wait_for_selector("#hot-keys tbody tr")
        assert text_of(page, "h1") == name
        keys = [one.text_content() for one in page.locator("#hot-keys bdi").all()]
        assert keys[0] == HOSTILE[0]
        assert keys[1] == HOSTILE[1]
        assert keys[2] == "\\u202e" + HOSTILE[2][1:]  # shown, not obeyed
        assert keys[3] == "x" * 600
        assert keys[4] == "a\\u000ab\\u0000c"
        assert keys[5] == "(empty text)"
        assert keys[6:] == HOSTILE[6:]
        assert page.locator("main img, main script, main i i, main b[onmouseover]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.hover("h1")


def test_consumer_groups_and_a_fleet_have_pages_of_their_own(browser):
    group, fleet = ConsumerLag("b:1", "clicks", "<i>sessions</i>"), FleetStatus(None)
    for one in (group, fleet):
        one.version, one.poll = 1, lambda: False
    group.readings.extend((1.79e9 + i, 7 * i, 1.0) for i in range(20))
    line = {"partition": 3, "offset": None, "end": 9, "messages": 9, "seconds": None}
    group.partitions = [line, {**line, "partition": 4, "offset": 5, "messages": 40, "seconds": 2.0}]
    node = {"name": "node0", "alive": True, "draining": False, "queries": 1, "load": 0.5}
    query = {"name": "hits", "node": "node0", "state": "lost", "batches": 3, "load": 0.5}
    fleet.seen = {
        "coordinator": False,
        "correlation": 0.25,
        "nodes": [{**node, "load_deviation": 0.1}],
        "queries": [{**query, "error": "<b>broken</b>"}],
        "moves": [
            {"time": 1.79e9, "query": "hits", "from": None, "to": "node0", "reason": "first"}
        ],
    }
    with (
        PageServer(Sources([], [group], fleet), TOKEN) as server,
        opened(browser, server.url) as page,
    ):
        wait(page, "document.querySelectorAll('main tbody tr').length === 2")
        assert text_of(page, "h1") == "<i>sessions</i> on clicks"
        assert text_of(page, "main tbody tr").split("\t")[:2] == ["4", "40"]
        page.click("#theme")
        page.click("nav a:has-text('Nodes and queries')")
        wait(page, "document.querySelector('h1').textContent === 'Fleet'")
        wait(page, "document.querySelectorAll('main table').length === 3")
        assert "No coordinator is running" in text_of(page, "main .problem")
        assert "<b>broken</b>" in text_of(page, "main")
        assert "nowhere → node0" in text_of(page, "main")


def test_a_committed_batch_appears_without_a_reload(browser, tmp_path):
    Checkpoint.open(tmp_path / "new", {})
    with (
        served(tmp_path / "new", tmp_path / "missing") as server,
        opened(browser, server.url) as page,
    ):
        wait(page, "document.querySelector('main').innerText.includes('No batch yet')")
        assert page.locator(".tile:visible").count() == 0
        rng = np.random.default_rng(0)
        for batch in range(2):
            metrics = batch_metrics(batch, 4, rng, began=1.8e9 + batch)
            put_metrics(storage_at(tmp_path / "new").under("evenflow"), metrics)
            wait(page, f"document.querySelector('.tiles')?.innerText.includes('no. {batch},')")
        assert "Over time: " in text_of(page, "main h2")
        page.click("nav a:has-text('missing')")
        wait(page, "document.querySelector('main').innerText.includes('There is no checkpoint at')")


def test_1000_partitions_and_a_day_of_batches_stay_smooth(browser, tmp_path):
    write_checkpoint(tmp_path / "clicks", 10_000, 1000, wide=40, keys=HOSTILE)
    with served(tmp_path / "clicks") as server, opened(browser, server.url) as page:
        page.wait_for_selector(".tile")  # the newest batches are there before the others are read
        wait(page, "document.querySelector('main h2').textContent.includes('10,000 batches')")
        wait(
            page,
            "document.querySelector('#partitions h2').textContent.includes('1,000 partitions')",
        )
        answer = page.request.get(
            f"http://127.0.0.1:{server.port}/api/queries/0/series?points=1200",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        assert len(answer.json()["time"]) <= 1200
        assert len(answer.body()) < 400_000
        page.evaluate("window.longest = 0")
        page.locator(".u-over").first.scroll_into_view_if_needed()
        over = page.locator(".u-over").first.bounding_box()
        for step in range(60):
            page.mouse.move(over["x"] + over["width"] * step / 60, over["y"] + 50)
        bars = page.locator("#partitions canvas").bounding_box()
        for step in range(60):
            page.mouse.move(bars["x"] + bars["width"] * step / 60, bars["y"] + 50)
        page.focus("#partitions canvas")
        for _ in range(20):
            page.keyboard.press("PageDown")
        assert page.get_attribute("#partitions canvas", "aria-valuenow") is not None
        assert page.evaluate("window.longest") < LONGEST_TASK
        for width, scheme in ((390, "dark"), (390, "light"), (1000, "dark"), (1600, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(13, 16, 21)") == (scheme == "dark")
            page.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)
