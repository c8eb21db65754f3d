"""A headless Chromium that a test drives through DevTools' pipe: no port, no other package.

    with Chromium(folder) as browser:
        page = browser.open(path)
        page.evaluate("document.title")
        page.messages, page.requests        what it logged, and what it asked for

It draws WebGL in software, so that it runs anywhere; `shaders=False` takes WebGL away.
"""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

__all__ = ["Chromium", "has_chromium"]

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-pipe", "--hide-scrollbars"),
)
_SHADERS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def has_chromium() -> bool:
    return shutil.which("chromium") is not None


class Chromium:
    """One browser with a profile of its own in `folder`."""

    def __init__(self, folder: Path, shaders: bool = True):
        read_ours, write_theirs = os.pipe()
        read_theirs, write_ours = os.pipe()
        flags = [*_FLAGS, *(_SHADERS if shaders else ("--disable-3d-apis",))]
        command = ["chromium", *flags, f"--user-data-dir={folder}", "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        shell = f'exec "$@" 3<&{read_theirs} 4>&{write_theirs}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *command],
            pass_fds=(read_theirs, write_theirs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self.reader, self.writer = os.fdopen(read_ours, "rb", 0), os.fdopen(write_ours, "wb", 0)
        self.number, self.rest, self.events = 0, b"", []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        try:
            self.send("Browser.close")
        finally:
            self.process.wait(timeout=30)
            self.reader.close()
            self.writer.close()

    def send(self, method, session=None, **parameters):
        """Call a method of the protocol and wait for its answer; events are put aside."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self.writer.write(json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self.events.append(found)

    def _receive(self):
        while b"\0" not in self.rest:
            piece = self.reader.read(1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self.rest += piece
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def open(self, path, hash="", width=1200, height=900, scheme="light", mobile=False):
        """A page from disk, once it has loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.resize(width, height, mobile)
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        page.send("Emulation.setEmulatedMedia", features=media)
        page.send("Page.navigate", url=f"file://{path}{hash}")
        page.wait("document.readyState === 'complete'")
        return page


class Page:
    """One tab."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def resize(self, width, height, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def evaluate(self, expression):
        """The value of an expression, after its promise if it is one."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def wait(self, condition, seconds=90):
        """Until an expression is true."""
        until = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < until, f"never: {condition}"
            time.sleep(0.05)

    def drag(self, *places):
        """Press the mouse at the first place, move through the others, release."""
        for i, (x, y) in enumerate(places):
            self.mouse("mousePressed" if i == 0 else "mouseMoved", x, y)
        self.mouse("mouseReleased", *places[-1])

    def mouse(self, kind, x, y):
        more = {"button": "left", "buttons": 1, "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **text)

    def screenshot(self, path, whole=True):
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    @property
    def messages(self):
        """Everything that was logged or thrown, in words."""
        found = []
        for event in self._events():
            facts = event["params"]
            if event["method"] == "Runtime.consoleAPICalled":
                words = [str(part.get("value", part.get("description"))) for part in facts["args"]]
                found.append(f"{facts['type']}: {' '.join(words)}")
            elif event["method"] == "Runtime.exceptionThrown":
                details = facts["exceptionDetails"]
                found.append(details.get("exception", details).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded":
                found.append(facts["entry"]["text"])
        return found

    @property
    def requests(self):
        """The addresses that were asked for beside the page itself."""
        asked = [e["params"] for e in self._events() if e["method"] == "Network.requestWillBeSent"]
        urls = [facts["request"]["url"] for facts in asked if facts.get("type") != "Document"]
        return [url for url in urls if not url.startswith("data:")]

    def _events(self):
        self.evaluate("1")
        return [event for event in self.browser.events if event.get("sessionId") == self.session]
