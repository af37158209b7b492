"""A real Chromium, driven over the DevTools protocol with aiohttp; no other package is needed."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import tempfile
from pathlib import Path

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
REASON = "Chromium is not installed (Debian: apt-get install chromium)"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)
DEADLINE_SECONDS = 20.0


def _is_error(entry):
    """Answers such as 404 are no errors of the page."""
    return entry["level"] == "error" and entry["source"] != "network"


class PageError(Exception):
    """A script failed in the page, or a condition did not come true."""


class Page:
    """One tab. Scripts are expressions of JavaScript."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self.errors = []
        """Exceptions, errors of the console, and violations of the policy."""

    async def read(self):
        async for message in self._socket:
            answer = json.loads(message.data)
            if "id" in answer:
                self._answers.pop(answer["id"]).set_result(answer)
            elif answer["method"] == "Runtime.exceptionThrown":
                details = answer["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            elif answer["method"] == "Log.entryAdded" and _is_error(answer["params"]["entry"]):
                self.errors.append(answer["params"]["entry"]["text"])

    async def send(self, method, **parameters):
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": parameters}))
        answer = await asyncio.wait_for(self._answers[number], DEADLINE_SECONDS + 10)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    async def value(self, script):
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"].get("exception", {}).get("description", "the script failed"))
        return answer["result"].get("value")

    async def open(self, url):
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def until(self, script, seconds=DEADLINE_SECONDS):
        """The first value of the script that is true."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            with contextlib.suppress(PageError):
                if value := await self.value(script):
                    return value
            if asyncio.get_running_loop().time() > deadline:
                text = await self.value("document.body.innerText.slice(0, 2000)")
                raise PageError(f"{script} did not come true; errors: {self.errors}; the page:\n{text}")
            await asyncio.sleep(0.05)

    async def until_text(self, text, seconds=DEADLINE_SECONDS):
        await self.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    async def click(self, text):
        """Click the button or link with this text."""
        script = f"""(() => {{ const element = [...document.querySelectorAll("button, a")]
            .filter((one) => one.offsetParent !== null && one.innerText.trim() === {json.dumps(text)}).pop();
            if (!element) return false; element.click(); return true; }})()"""
        await self.until(script)

    async def fill(self, selector, text):
        await self.until(f"""(() => {{ const element = document.querySelector({json.dumps(selector)});
            if (!element) return false; element.value = {json.dumps(text)};
            element.dispatchEvent(new Event("input", {{bubbles: true}}));
            element.dispatchEvent(new Event("change", {{bubbles: true}})); return true; }})()""")

    async def resize(self, width, height, *, scale=1, is_mobile=False):
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=is_mobile,
        )

    async def use_theme(self, name):
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def close(self):
        await self.send("Page.close")

    async def screenshot(self, path):
        answer = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(Path(path).write_bytes, base64.b64decode(answer["data"]))


class Browser:
    def __init__(self, session, port, process):
        self._session = session
        self._port = port
        self.process = process
        self._tasks = []

    async def new_page(self):
        url = f"http://127.0.0.1:{self._port}/json/new?about:blank"
        async with self._session.put(url) as response:
            target = await response.json()
        socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        page = Page(socket)
        self._tasks.append(asyncio.create_task(page.read()))
        for domain in ("Page", "Runtime", "Log", "Performance"):
            await page.send(f"{domain}.enable")
        return page

    async def close(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def opened():
    """A browser with a new, empty profile."""
    assert CHROMIUM is not None, REASON
    with tempfile.TemporaryDirectory(prefix="pykueue-chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                browser = Browser(session, port, process)
                try:
                    yield browser
                finally:
                    await browser.close()
        finally:
            process.terminate()
            await process.wait()


async def _port(file):
    for _ in range(600):
        lines = (await asyncio.to_thread(file.read_text)).split() if await asyncio.to_thread(file.exists) else []
        if lines:
            return int(lines[0])
        await asyncio.sleep(0.05)
    raise PageError("Chromium did not start within 30 seconds")
