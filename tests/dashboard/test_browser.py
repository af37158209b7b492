"""The page in a real Chromium, as a user sees it."""

import json

import pytest
import pytest_asyncio
from tests.dashboard import browser as browsers
from tests.dashboard.page_site import Site

pytestmark = [
    pytest.mark.skipif(browsers.CHROMIUM is None, reason=browsers.REASON),
    pytest.mark.asyncio(loop_scope="module"),
]

LIVE = "!!document.querySelector('.connection.live')"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("page"))
    await site.start()
    yield site
    await site.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser, site):
    """A page of the administrator, opened by a link of `pykueue dashboard`."""
    page = await browser.new_page()
    await page.open(site.link())
    await page.until(LIVE)
    yield page
    assert page.errors == []
    await page.close()


async def until_state(page, name, state):
    await page.until(f"""[...document.querySelectorAll(".scroll .row")].some((row) =>
        row.innerText.includes({json.dumps(name)}) && !!row.querySelector(".state.{state}"))""")


async def test_a_link_logs_in_and_leaves_no_secret_in_the_address(page, site):
    address = await page.value("location.href")
    assert address == f"http://127.0.0.1:{site.page_port}/dashboard/#/cluster"


async def test_a_used_link_shows_the_login(browser, site):
    link = site.link()
    first, second = await browser.new_page(), await browser.new_page()
    await first.open(link)
    await first.until(LIVE)
    await second.open(link)
    await second.until_text("this link was used before")
    await first.close()
    await second.close()


async def test_a_job_goes_from_pending_to_finished_without_a_reload(page, site):
    """The page itself notes the states that it shows: the test may be too slow to see each."""
    await page.value("location.hash = '#/workloads'")
    await page.value("""globalThis.states = new Set(), new MutationObserver(() => {
        for (const row of document.querySelectorAll(".scroll .row"))
            if (row.innerText.includes("follower")) states.add(row.querySelector(".state").classList[1]);
        }).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true })""")
    await site.create_job("blocker", gpu=4, seconds=3600)
    await until_state(page, "blocker", "running")
    await site.create_job("follower", gpu=4, seconds=5)
    await until_state(page, "follower", "pending")
    await site.delete_job("blocker")
    await until_state(page, "follower", "finished")
    states = await page.value("[...states].filter((state) => state !== 'starting' && state !== 'reserved')")
    assert states == ["pending", "running", "finished"]


async def test_a_waiting_workload_says_why(page, site):
    await site.create_job("huge", gpu=99, seconds=1)
    await page.value("location.hash = '#/workloads'")
    await until_state(page, "huge", "pending")
    await page.value(
        """[...document.querySelectorAll(".scroll .row")].find((row) => row.innerText.includes("huge")).querySelector("a").click()"""
    )
    await page.until_text("Why it waits")
    await page.until("document.getElementById('explanation').innerText.includes('nvidia.com/gpu')")
    await site.delete_job("huge")


async def test_a_preemption_is_shown_with_both_sides(page, site):
    await site.create_job("victim", gpu=4, seconds=600, priority="low")
    await page.value("location.hash = '#/workloads'")
    await until_state(page, "victim", "running")
    await site.create_job("urgent", gpu=4, seconds=600, priority="high")
    await until_state(page, "urgent", "running")
    await page.value("location.hash = '#/preemptions'")
    await page.until("""[...document.querySelectorAll("#preemptions tr")].some((row) =>
        row.innerText.includes("victim") && row.innerText.includes("urgent"))""")
    for name in ("victim", "urgent"):
        await site.delete_job(name)


async def test_a_workload_is_stopped_and_resumed(page, site):
    name = await site.create_job("pause", gpu=1, seconds=600)
    await page.value("location.hash = '#/workloads'")
    await until_state(page, "pause", "running")
    await page.value(
        """[...document.querySelectorAll(".scroll .row")].find((row) => row.innerText.includes("pause")).querySelector("a").click()"""
    )
    await page.click("Stop")
    await page.until("!!document.querySelector('dialog[open]')")
    await page.click("Stop")
    await page.until("!!document.querySelector('.facts .state.stopped')")
    await page.click("Resume")
    await page.until("!!document.querySelector('.facts .state.running')")
    await site.delete_job(name)


async def test_a_job_is_submitted_with_the_form(page, site):
    await page.click("Submit")
    await page.fill("dialog textarea", "echo hello")
    await page.fill("dialog input[placeholder=generated]", "by-form")
    await page.click("Submit")
    await until_state(page, "by-form", "running")
    await site.delete_job("by-form")


async def test_views_have_no_errors(page):
    for view in ("cluster", "queues", "queues/team", "nodes", "preemptions", "simulation", "workloads"):
        await page.value(f"location.hash = '#/{view}'")
        await page.until("!!document.querySelector('main .card')")


async def test_nothing_is_loaded_from_another_server(page, site):
    loaded = await page.value("performance.getEntriesByType('resource').map((entry) => new URL(entry.name).host)")
    assert set(loaded) == {f"127.0.0.1:{site.page_port}"}


async def test_a_wrong_token_is_refused_with_a_reason(browser, site):
    page = await browser.new_page()
    await page.open(site.address)
    await page.fill("input[type=password]", "wrong")
    await page.click("Log in")
    await page.until_text("This token is not valid")
    await page.close()


async def test_a_user_of_one_namespace_sees_only_that_namespace(browser, site):
    token = site.add_user("alice", "alice-lab")
    await site.create_job("secret", gpu=99, seconds=1)
    page = await browser.new_page()
    await page.open(site.address)
    await page.fill("input[type=password]", token)
    await page.click("Log in")
    await page.until(LIVE)
    await page.value("location.hash = '#/workloads'")
    await page.until_text("No workloads yet")
    assert "secret" not in await page.value("document.body.innerText")
    await page.close()
    await site.delete_job("secret")


async def test_ten_thousand_workloads_are_filtered_at_once(page):
    """The rows come from the page's own table, so that the server need not run 10,000 jobs."""
    await page.value("location.hash = '#/workloads'")
    filtered = await page.value("""import('/dashboard/workloads.js').then(async ({ select, filters }) => {
        const { F, FIELDS } = await import('/dashboard/store.js');
        const rows = Array.from({ length: 10000 }, (_, index) => FIELDS.map((name) => ({ requests: {}, uid: `u${index}`,
            job: `train-${index}`, name: `job-train-${index}`, state: index % 2 ? "pending" : "running",
            created: 1000 + index, priority: index % 5, pods: 1 })[name] ?? ""));
        const found = select(rows, { ...filters, text: "train-99", state: "pending" });
        return { count: found.length, first: found[0][F.job] };
    })""")
    assert (filtered["count"], filtered["first"]) == (56, "train-9999")


async def test_a_lost_connection_is_shown_and_heals(browser, site):
    page = await browser.new_page()
    await page.open(site.link())
    await page.until(LIVE)
    await site.stop()
    await page.until_text("Connection lost")
    await site.start_process()
    await page.until(LIVE, 40)
    await site.create_job("after", gpu=1, seconds=1)
    await page.value("location.hash = '#/workloads'")
    await until_state(page, "after", "finished")
    await page.close()


async def test_the_first_paint_waits_for_one_file_of_styles_only(browser, site):
    page = await browser.new_page()
    await page.open(site.address)
    await page.until("performance.getEntriesByName('first-contentful-paint').length")
    blocking = await page.value("""performance.getEntriesByType('resource')
        .filter((entry) => entry.renderBlockingStatus === 'blocking').map((entry) => new URL(entry.name).pathname)""")
    assert blocking == ["/dashboard/style.css"]
    await page.close()


async def test_a_report_is_shown_with_its_styles_and_without_its_scripts(page):
    report = """<!doctype html><html><style>:root { --series: rgb(1, 2, 3); }</style><body>
        <p style="color: var(--series)">Mean wait 5m</p><script>window.wasRun = true</script></body></html>"""
    await page.value("location.hash = '#/simulation'")
    await page.until(f"""(() => {{ const input = document.querySelector("input[type=file]");
        if (!input) return false;
        const files = new DataTransfer();
        files.items.add(new File([{json.dumps(report)}], "report.html", {{type: "text/html"}}));
        input.files = files.files;
        input.dispatchEvent(new Event("change", {{bubbles: true}}));
        return true; }})()""")
    paragraph = "document.querySelector('.report')?.shadowRoot?.querySelector('p')"
    assert await page.until(f"{paragraph} && {paragraph}.textContent") == "Mean wait 5m"
    assert await page.value(f"getComputedStyle({paragraph}).color") == "rgb(1, 2, 3)"
    assert await page.value("window.wasRun === undefined")


async def test_a_new_quota_is_previewed_before_it_is_changed(page, site):
    """The waiting job would start; nothing is written by the preview."""
    await site.create_job("holds", gpu=4, seconds=3600)
    await site.create_job("waits", gpu=4, seconds=60)
    await page.value("location.hash = '#/queues/team'")
    await page.until_text("Next in line")
    await page.until_text("unknown")
    await page.click("Change quota")
    await page.until("document.querySelectorAll('dialog option').length === 2")
    await page.fill("dialog select", "0 0 1")
    await page.fill("dialog input", "8")
    await page.click("Preview")
    await page.until_text("In the next 1h this change would")
    effect = await page.value("document.querySelector('#effect').innerText")
    assert "admit default/job-waits-" in effect
    await page.click("Cancel")
    await page.until_text("4 / 4")
    for name in ("holds", "waits"):
        await site.delete_job(name)
