"""The security list of the page, claim by claim, over real HTTP."""

import pytest

from pykueue.dashboard import static_files


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_the_page_is_served_to_anybody_but_shows_nothing(site):
    async with site.get("/dashboard/") as page, site.get("/dashboard/stream") as stream:
        assert (page.status, stream.status) == (200, 401)


@pytest.mark.parametrize("header", sorted(static_files.HEADERS))
async def test_every_file_has_the_security_headers(site, header):
    for path in ("/dashboard/", "/dashboard/app.js", "/dashboard/style.css"):
        async with site.get(path) as response:
            assert response.headers[header] == static_files.HEADERS[header]


async def test_the_link_logs_in_once(site, api, dashboard):
    code = dashboard.link().partition("#code=")[2]
    async with site.post("/dashboard/login", json={"code": code}) as first:
        token = (await first.json())["token"]
    async with site.post("/dashboard/login", json={"code": code}) as second:
        assert (token, second.status) == (api.access.token, 403)


async def test_the_link_has_no_token(api, dashboard):
    assert api.access.token not in dashboard.link()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"code": 7}', b"\xff"])
async def test_a_malformed_login_is_refused(site, body):
    async with site.post("/dashboard/login", data=body, headers={"Content-Type": "application/json"}) as response:
        assert 400 <= response.status < 500


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6444", "127.0.0.1.evil.example", "localhost.evil", ""])
@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/stream", "/api/v1/pods"])
async def test_another_host_is_refused(site, api, host, path):
    async with site.get(path, headers={"Host": host, **bearer(api.access.token)}) as response:
        assert response.status == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:80", "[::1]:6444", "LOCALHOST"])
async def test_loopback_names_are_accepted(site, host):
    async with site.get("/dashboard/", headers={"Host": host}) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/stream", "/api/v1/pods"])
async def test_no_other_origin_may_read(site, api, path):
    headers = {"Origin": "https://evil.example", **bearer(api.access.token)}
    async with site.get(path, headers=headers) as response:
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]


async def test_a_preflight_is_refused(site):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    async with site.options("/dashboard/stream", headers=headers) as response:
        assert response.status >= 400
        assert "Access-Control-Allow-Origin" not in response.headers


async def test_no_cookie_is_set(site, dashboard):
    code = dashboard.link().partition("#code=")[2]
    async with site.post("/dashboard/login", json={"code": code}) as response:
        assert "Set-Cookie" not in response.headers


async def test_a_wrong_token_is_refused(site):
    async with site.get("/dashboard/stream", headers=bearer("wrong")) as response:
        assert response.status == 401


async def test_a_user_gets_a_link_to_the_own_token_only(site, api, token_of):
    alice = token_of("alice")
    async with site.post("/dashboard/link", json={"token": api.access.token}, headers=bearer(alice)) as response:
        assert response.status == 400
    async with site.post("/dashboard/link", json={"token": alice}, headers=bearer(alice)) as response:
        code = (await response.json())["code"]
    async with site.post("/dashboard/login", json={"code": code}) as response:
        assert (await response.json())["token"] == alice


async def test_a_page_that_was_never_logged_in_gets_no_link(site):
    async with site.post("/dashboard/link", json={"token": "x"}) as response:
        assert response.status == 401


async def test_files_of_the_machine_are_not_served(site, api):
    async with site.get("/dashboard/%2e%2e/embedded.py", headers=bearer(api.access.token)) as response:
        assert response.status == 404


@pytest.mark.parametrize("name", ["token", "access_token", "code", "authorization"])
async def test_a_token_in_the_address_opens_nothing(site, api, name):
    for path in ("/dashboard/stream", "/api/v1/pods"):
        async with site.get(path, params={name: api.access.token}) as response:
            assert response.status in (401, 403)
