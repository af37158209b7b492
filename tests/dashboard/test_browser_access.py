"""The page without a mouse, without sight, on a phone, with few rights, and under attack."""

import json

import pytest
import pytest_asyncio
from aiohttp import web
from tests.dashboard import browser as browsers
from tests.dashboard.page_site import Site

pytestmark = [
    pytest.mark.skipif(browsers.CHROMIUM is None, reason=browsers.REASON),
    pytest.mark.asyncio(loop_scope="module"),
]

LIVE = "!!document.querySelector('.connection.live')"
VIEWS = ("cluster", "queues", "queues/team", "workloads", "nodes", "preemptions", "simulation")
CONTROLS = {"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "table", "image", "dialog"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory):
    """A cluster with one job that runs and one that waits."""
    site = Site(tmp_path_factory.mktemp("page"))
    await site.start()
    await site.create_job("holds", gpu=4, seconds=3600)
    await site.create_job("waits", gpu=4, seconds=3600)
    yield site
    await site.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser, site):
    page = await browser.new_page()
    await page.open(site.link())
    await page.until(LIVE)
    await page.value("location.hash = '#/workloads'")
    await page.until("document.querySelectorAll('.scroll .row').length === 2")
    yield page
    await page.close()


def row_of(name):
    return f"""[...document.querySelectorAll(".scroll .row")].find((row) => row.innerText.includes("{name}"))"""


async def open_workload(page, name):
    await page.value("location.hash = '#/workloads'")
    await page.until(f"(({row_of(name)})?.querySelector('a').click(), location.hash.startsWith('#/workload/'))")
    await page.until("!!document.querySelector('.facts')")


async def press(page, key):
    for kind in ("keyDown", "keyUp"):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = {"Enter": 13, "Escape": 27}.get(key, 0)
        text = text if kind == "keyDown" else ""
        await page.send("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)


async def press_until(page, keys, condition):
    """A view that has just been drawn hears keys a moment later, so they are pressed again."""
    for _ in range(200):
        for key in keys:
            await press(page, key)
        if await page.value(condition):
            return
    raise browsers.PageError(f"{keys} does not make it true that {condition}")


async def views_of(page):
    """Every view in turn, with the name of it."""
    for view in VIEWS:
        await page.value(f"location.hash = '#/{view}'")
        await page.until("!!document.querySelector('main .card')")
        yield view
    await open_workload(page, "waits")
    yield "workload"


async def test_every_view_fits_a_phone(page):
    await page.resize(390, 844, is_mobile=True)
    async for view in views_of(page):
        widest = """[...document.querySelectorAll('main *')].filter((element) => !element.closest('.scroll-x, .table, svg'))
            .reduce((most, element) => Math.max(most, element.getBoundingClientRect().right), 0)"""
        assert await page.value(widest) <= 390, view
        assert await page.value("document.documentElement.scrollWidth") <= 390, view


async def test_the_filter_of_nodes_has_room_on_a_phone(page):
    """Also beside a grouping with a long name, which moves to a line of its own."""
    await page.resize(390, 844, is_mobile=True)
    await page.value("location.hash = '#/nodes'")
    await page.until("!!document.querySelector('article.node')")
    boxes = """["input[aria-label='Filter nodes']", "select[aria-label='Group by']"].map((name) => {
        const box = document.querySelector(name).getBoundingClientRect();
        return [box.left, box.right, box.top, box.bottom].map(Math.round); })"""
    card = await page.value("document.querySelector('.card > header').getBoundingClientRect().width")
    short_input, short_select = await page.value(boxes)
    assert short_input[2] == short_select[2], "both are on one line"
    assert short_select[1] - short_input[0] == pytest.approx(card, abs=2), "they fill the line"
    await page.value("""document.querySelector("select[aria-label='Group by'] option").textContent =
        "by topology of-the-largest-machine-room"
    """)
    long_input, long_select = await page.value(boxes)
    assert long_select[2] >= long_input[3], "the select is below the filter"
    assert long_input[1] - long_input[0] == pytest.approx(card, abs=2)
    assert long_select[1] <= 390 - 12
    await page.value("""(() => { const input = document.querySelector("input[aria-label='Filter nodes']");
        input.value = "no-such-node"; input.dispatchEvent(new Event("input", {bubbles: true})); })()""")
    await page.until("!document.querySelector('article.node')")


async def unnamed_controls(page):
    tree = await page.send("Accessibility.getFullAXTree")
    nodes = [node for node in tree["nodes"] if not node.get("ignored")]
    roles = [node["role"]["value"] for node in nodes if not node.get("name", {}).get("value")]
    return [role for role in roles if role in CONTROLS], len(nodes)


async def test_every_control_has_a_name_for_a_screen_reader(page):
    async for view in views_of(page):
        unnamed, total = await unnamed_controls(page)
        assert (unnamed, total > 20) == ([], True), view


async def test_dialogs_have_names_for_a_screen_reader(page):
    for button in ("Submit", "?"):
        await page.click(button)
        await page.until("!!document.querySelector('dialog[open]')")
        assert (await unnamed_controls(page))[0] == []
        await press(page, "Escape")
        await page.until("!document.querySelector('dialog[open]')")


async def test_the_page_is_used_without_a_mouse(page):
    await press_until(page, "gc", "location.hash === '#/cluster'")
    await press_until(page, "gw", "document.querySelectorAll('.scroll .row').length === 2")
    await press_until(page, "/", "document.activeElement.matches('input[type=search]')")
    for letter in "waits":
        await press(page, letter)
    await page.until("document.querySelectorAll('.scroll .row').length === 1")
    await press_until(page, ["Escape"], "document.activeElement === document.body")
    await press_until(page, "j", "!!document.querySelector('.scroll .row.chosen')")
    await press_until(page, ["Enter"], "location.hash.startsWith('#/workload/default/job-waits-')")


async def test_a_theme_that_was_chosen_stays(page):
    before = await page.value("document.documentElement.dataset.theme")
    await page.value("document.querySelector('button[title=Theme]').click()")
    await page.value("globalThis.isOld = true, location.reload()")
    await page.until(f"globalThis.isOld === undefined && {LIVE}")
    assert {before, await page.value("document.documentElement.dataset.theme")} == {"light", "dark"}


async def test_a_user_who_may_only_look_has_no_buttons(browser, site):
    token = site.add_user("viewer", "default", role="view")
    page = await browser.new_page()
    await page.open(site.address)
    await page.fill("input[type=password]", token)
    await page.click("Log in")
    await page.until(LIVE)
    await open_workload(page, "waits")
    await page.until_text("Why it waits")
    rights = await page.value("""import('/dashboard/api.js').then(async ({ may }) => [
        await may('get', 'kueue.x-k8s.io', 'workloads', 'default'), await may('patch', 'kueue.x-k8s.io', 'workloads', 'default'),
        await may('delete', 'batch', 'jobs', 'default'), await may('create', 'batch', 'jobs', 'default')])""")
    assert rights == [True, False, False, False]
    texts = await page.value("[...document.querySelectorAll('button')].map((button) => button.innerText.trim())")
    assert not {"Stop", "Priority", "Delete", "Submit"} & {*texts}
    await page.close()


async def test_a_priority_is_changed_and_a_job_deleted(page, site):
    await site.create_job("urgent", gpu=99, seconds=1)
    await open_workload(page, "urgent")
    await page.click("Priority")
    await page.fill("dialog select", "high")
    await page.click("Change")
    await page.until_text("high 1000")
    await page.click("Delete")
    await page.until("!!document.querySelector('dialog[open]')")
    await page.click("Delete")
    await page.until("location.hash === '#/workloads'")
    await page.until(f"!{row_of('urgent')}")


async def test_a_quota_is_changed(page, site):
    await page.value("location.hash = '#/queues/team'")
    await page.click("Change quota")
    await page.until("document.querySelectorAll('dialog option').length === 2")
    await page.fill("dialog select", "0 0 0")
    await page.fill("dialog input", "48")
    await page.click("Change")
    await page.until("!document.querySelector('dialog[open]')")
    await page.until_text("/ 48")


async def test_another_site_can_neither_read_nor_frame_the_page(browser, site):
    """The attacker's page is on another port of the same machine."""

    async def attack(_request):
        frame = f'<!doctype html><iframe src="{site.address}"></iframe>'
        return web.Response(text=frame, content_type="text/html")

    application = web.Application()
    application.router.add_get("/", attack)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    page = await browser.new_page()
    await page.open(f"http://127.0.0.1:{runner.addresses[0][1]}/")
    await page.until("true")
    for path in ("", "app.js", "stream"):
        read = f"fetch({json.dumps(site.address + path)}).then((one) => one.text()).then(() => 'read', () => 'refused')"
        assert await page.value(read) == "refused"
    framed = await page.value("(() => { try { return !!frames[0].document; } catch { return false; } })()")
    assert framed is False
    tree = await page.send("Page.getFrameTree")
    (child,) = tree["frameTree"]["childFrames"]
    assert child["frame"].get("unreachableUrl", "").startswith(site.address)
    await page.close()
    await runner.cleanup()


async def test_text_that_is_injected_is_not_run(page):
    """Neither markup nor an inline script nor one of another server."""
    inject = """(() => { try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="globalThis.owned = 1">'); }
        catch (error) { return error.name; } return 'inserted'; })()"""
    assert await page.value(inject) == "TypeError"
    foreign = """new Promise((resolve) => { const image = new Image();
        image.onload = () => resolve('loaded'); image.onerror = () => resolve('refused');
        image.src = 'http://127.0.0.1:9/x.png'; })"""
    assert await page.value(foreign) == "refused"
    assert await page.value("globalThis.owned === undefined")
