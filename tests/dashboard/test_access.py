"""Nothing is read without the token, nor under a name that another site could take on."""

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from evenflow.dashboard.access import POLICY
from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.server import STATIC, guarded
from evenflow.dashboard.sources import Sources
from evenflow.storage import storage_at
from recorded_batches import write_checkpoint

TOKEN = "a-token-that-nobody-guesses"
EVERYTHING = [
    "/",
    *(f"/static/{file.name}" for file in sorted(STATIC.iterdir(), key=str)),
    "/api/overview",
    "/api/updates",
    "/api/queries/0/series",
    "/api/queries/0/batches/0",
    "/api/queries/0/what-if?scheme=key&partitions=4",
    "/api/consumers/0",
    "/api/fleet",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/nowhere",
]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    path = tmp_path_factory.mktemp("ckpt")
    write_checkpoint(path, 3, 4)
    history = QueryHistory(str(path), storage_at(path))
    history.poll()
    return guarded(Sources([history]), TOKEN, 8470, ("page.example",))


def client_of(app, host="127.0.0.1:8470", **more):
    return TestClient(app, base_url=f"http://{host}", **more)


@pytest.mark.parametrize("path", EVERYTHING)
def test_no_request_without_the_token_reads_anything(app, path):
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"cookie": "evenflow-8470=wrong"},
        {"cookie": f"evenflow-9999={TOKEN}"},
        {"cookie": "evenflow-8470="},
        {"cookie": b"\xff;;=;"},
    ):
        answer = client_of(app).get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.text.startswith("This page needs its token")
    joint = "&" if "?" in path else "?"
    for given in (TOKEN[:-1], TOKEN + "x", "", "%ff", f"x&token={TOKEN}"):
        assert client_of(app).get(f"{path}{joint}token={given}").status_code == 401
    if path != "/":  # in an address, it opens the page and nothing else
        assert client_of(app).get(f"{path}{joint}token={TOKEN}").status_code == 401


def test_the_address_opens_the_page_and_the_cookie_all_else(app):
    client = client_of(app)
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    assert "<!doctype html>" in answer.text
    assert TOKEN not in answer.text
    cookie = answer.headers["set-cookie"]
    assert cookie == f"evenflow-8470={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert client.get("/").status_code == 200
    assert "set-cookie" not in client.get("/").headers
    assert client.get("/api/overview").json()["queries"][0]["batches"] == 3
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client_of(app).get("/metrics", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    "path", [f"/?token={TOKEN}", "/api/overview", "/nowhere", "/static/app.js"]
)
def test_every_answer_forbids_scripts_from_elsewhere_frames_and_caches(app, path):
    answer = client_of(app).get(path, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.headers["content-security-policy"] == POLICY
    assert "script-src 'self'" in POLICY
    assert "unsafe" not in POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8470", 200),
        ("localhost:8470", 200),
        ("localhost", 200),
        ("[::1]:8470", 200),
        ("10.1.2.3:8470", 200),
        ("page.example:8470", 200),
        ("PAGE.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8470", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1@evil.example", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_a_name_that_was_pointed_at_this_machine_is_refused(app, host, status):
    headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
    assert client_of(app).get("/api/overview", headers=headers).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_get_and_head_is_answered(app, method):
    headers = {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}
    answer = client_of(app).request(method, "/api/overview", headers=headers)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


def test_websockets_are_closed(app):
    with pytest.raises(WebSocketDisconnect), client_of(app).websocket_connect("/api/updates"):
        pass


@pytest.mark.parametrize(
    "name", ["..%2fserver.py", "%2e%2e/server.py", "uPlot.LICENSE.txt", "x.js"]
)
def test_only_the_page_s_own_files_are_served(app, name):
    answer = client_of(app).get(f"/static/{name}", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 404


def test_the_page_names_no_other_site():
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8")
        if file.name.startswith("uPlot"):
            continue
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in text
        assert "innerHTML" not in text
        assert "insertAdjacent" not in text
        assert "document.write" not in text
