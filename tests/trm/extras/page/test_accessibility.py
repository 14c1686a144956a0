"""The web page for everybody: contrast, names, keyboard, touch, small screens, reduced motion.

Contrast is computed from the style sheet. All else needs a browser: these tests run where
`playwright` is installed and Chromium is on the path, and are skipped elsewhere.
"""

import re
import shutil
from pathlib import Path

import pytest

import trm.extras.page
from trm.checkpoints import SHIPPED
from trm.extras.page.page import page

from .test_page import shown

CSS = Path(trm.extras.page.__path__[0], "page.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#\w+);", block))
    for block in re.findall(r":root \{(.+?)\n *\}", CSS, re.DOTALL)
)
FROM = ("right", "above", "above_left", "above_right")
TEXT = [("ink", "paper"), ("soft", "paper"), ("bad", "paper"), ("filled-ink", "paper")]
TEXT += [("ink", "given"), ("ink", "mask"), ("ink", "filled"), ("filled-ink", "filled")]
TEXT += [("white", "read"), ("paper", "bad"), *((name, "paper") for name in FROM)]
SHAPES = [("edge", "paper"), ("ink", "filled"), ("bad", "filled"), ("read", "paper")]
SHAPES += [(name, back) for name in FROM for back in ("filled", "given", "paper")]


def until(tab, condition: str) -> None:
    """Wait for a condition of the page; its own policy forbids the driver's way of waiting."""
    for _ in range(300):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(condition)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2, of #rgb or #rrggbb."""
    digits = "".join(2 * one for one in colour[1:]) if len(colour) == 4 else colour[1:]
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000", "#ffffff") == 21
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colours", [LIGHT, LIGHT | DARK], ids=["light", "dark"])
def test_text_has_contrast_4_5_and_shapes_have_3(colours):
    colours = {**colours, "white": "#fff"}
    measured = {(a, b): contrast(colours[a], colours[b]) for a, b in TEXT + SHAPES}
    assert {
        pair: figure for pair, figure in measured.items() if pair in TEXT and figure < 4.5
    } == {}
    assert {pair: figure for pair, figure in measured.items() if figure < 3} == {}


ADDRESS = "#a=2187&b=677&model=lattice&beside=untold-neighbours-seed0"
# Elements whose own text has less contrast than 4.5 with what is behind it.
FAINT = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const scale = colour.startsWith("color(") ? 1 : 255;
    const [r, g, b] = parts(colour.replace("srgb", "")).map((one) => linear(one / scale));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const clear = (colour) => /^rgba/.test(colour) && parts(colour)[3] === 0;
  const back = (one) => {
    const colour = getComputedStyle(one).backgroundColor;
    if (!clear(colour)) return colour;
    return one.parentElement ? back(one.parentElement) : "rgb(255, 255, 255)";
  };
  const own = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.body.querySelectorAll("*")].filter((one) => {
    if (!own(one) || !one.checkVisibility()) return false;
    if (["SCRIPT", "OPTION"].includes(one.tagName)) return false;
    const both = [light(getComputedStyle(one).color), light(back(one))].sort((a, b) => b - a);
    return (both[0] + 0.05) / (both[1] + 0.05) < 4.5;
  }).map((one) => one.outerHTML.slice(0, 80));
}"""
SMALL = """() => [...document.querySelectorAll("button, select, input, summary, td[tabindex]")]
  .filter((one) => one.checkVisibility())
  .filter((one) => Math.min(one.offsetWidth, one.offsetHeight) < 24)
  .map((one) => one.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def open_page(repository, tmp_path_factory):
    """Open the page of four models at an address, in a window with some settings."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no browser is installed")
    names = ("untold-neighbours-seed0", "tiny-seed0", "column-seed0")
    models = [SHIPPED, *(repository / f"docs/models/{name}.safetensors" for name in names)]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page([*map(shown, models)]))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])

        def opened(address=ADDRESS, width=1280, **settings):
            context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
            tab = context.new_page()
            tab.on("pageerror", lambda error: pytest.fail(str(error)))
            tab.goto(f"file://{file}{address}")
            until(tab, "byId('works').children.length > 0")
            return tab

        yield opened
        browser.close()


@pytest.mark.parametrize("width", [320, 360, 768, 1280, 1920])
def test_nothing_is_wider_than_the_window_and_targets_are_large(open_page, width):
    for address in ("#999999x999999", ADDRESS, "#a=12&b=34&model=tiny-seed0&beside=lattice"):
        tab = open_page(address, width)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(SMALL) == []
        tab.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast_in_a_browser(open_page, scheme):
    tab = open_page(color_scheme=scheme)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 22, 22)"
    )
    tab.click("summary")
    tab.select_option("#longest", "4")
    tab.select_option("#number", "5")
    tab.click("#start")
    until(tab, "byId('done').value === 80")
    for action in (
        "go(5)",
        "go(99)",
        "byId('shake').onclick(); play(false)",
        "byId('on').onclick()",
    ):
        tab.evaluate(action)
        assert tab.evaluate(FAINT) == []


def test_every_control_has_a_role_and_a_name(open_page):
    tab = open_page()
    named = [("textbox", "Problem"), ("combobox", "Model"), ("combobox", "Compared with")]
    named += [("combobox", "Canvas"), ("combobox", "Digit"), ("combobox", "Up to")]
    named += [("combobox", "Problems of each size"), ("link", "Link to this problem")]
    named += [("button", name) for name in ("Solve", "Play", "Scribble", "Shake", "Measure")]
    named += [("button", "One cell back"), ("button", "One cell on")]
    named += [("slider", "Computed cells"), ("slider", "Speed"), ("grid", "Canvas of lattice")]
    named += [("region", "Canvases"), ("region", "One cell"), ("main", ""), ("banner", "")]
    for role, name in named:
        found = tab.get_by_role(role, name=name, exact=True) if name else tab.get_by_role(role)
        assert found.count() == 1, (role, name)
    grid = tab.get_by_role("grid", name="Canvas of lattice")
    assert grid.get_by_role("gridcell").count() == 4 * 8
    assert grid.get_by_role("gridcell", name="×, given").count() == 1
    assert tab.locator("[aria-live]").count() == 0  # one status, and one alert
    assert tab.get_by_role("heading", level=1).count() == 1


def test_a_keyboard_is_enough_and_the_focus_is_seen(open_page):
    tab = open_page()
    stops = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        stop = tab.evaluate("""() => {
          const one = document.activeElement, style = getComputedStyle(one);
          return [one.id || one.tagName, style.outlineStyle, parseFloat(style.outlineWidth)]; }""")
        if stop[0] == "BODY":
            break
        stops.append(stop)
    assert all(style == "solid" and width >= 3 for _, style, width in stops), stops
    names = [name for name, *_ in stops]
    assert names[:4] == ["text", "model", "beside", "view"]
    assert names.count("TD") == 2  # one of each canvas
    assert {"back", "play", "on", "at", "speed", "digit", "scribble", "shake", "link"} <= {*names}
    tab.locator("table.canvas td[tabindex='0']").first.focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowUp")
    assert tab.evaluate("[chosen.place, document.activeElement.ariaLabel]") == [[2, 0], "blank"]
    tab.keyboard.press("7")
    assert tab.inner_text("#hurt").endswith("2 cells not as solved")  # one on each canvas
    assert tab.evaluate("document.activeElement.ariaInvalid") == "true"


def test_a_tapped_cell_is_the_one_that_is_changed(open_page):
    tab = open_page("#123x456", 360, has_touch=True, is_mobile=True)
    tab.locator("table.canvas tr:nth-child(3) td:nth-child(3)").tap()
    tab.select_option("#digit", "9")
    tab.locator("#scribble").tap()
    tab.evaluate("play(false)")
    assert tab.evaluate("kept?.place ?? works[0].disturbed[2][2].symbol === symbols.indexOf('9')")
    assert tab.inner_text("#hurt") == "Step 0 of at most 13: 1 cell not as solved"


def test_reduced_motion_is_respected(open_page):
    tab = open_page("", reduced_motion="reduce")
    assert tab.inner_text("#count") == "21 of 21 cells"
    tab.click("#shake")
    assert tab.inner_text("#hurt").startswith("Step 0 of at most")
    assert tab.inner_text("#play") == "Play"
    tab.click("#play")  # asked for
    until(tab, "byId('healed').textContent.startsWith('Healed after')")


def test_announcements_do_not_flood(open_page):
    tab = open_page("#2539x839")
    tab.evaluate("""() => { globalThis.heard = [];
      new MutationObserver(() => heard.push(byId("status").textContent))
        .observe(byId("status"), { childList: true, characterData: true, subtree: true }); }""")
    tab.fill("#text", "12 × 34")
    tab.get_by_role("button", name="Solve").click()
    until(tab, "at === total")
    tab.wait_for_timeout(100)
    assert tab.evaluate("heard") == ["", "12 × 34 = 408 (correct, by exact arithmetic)"]
    tab.click("#back")
    assert tab.evaluate("heard.at(-1)").startswith("Row 3, column 5 from the right, writes nothing")


def test_the_address_shows_the_same_again(open_page):
    tab = open_page("")
    tab.select_option("#model", label="tiny-seed0")
    tab.select_option("#beside", label="lattice, lattice")
    tab.select_option("#view", label="turned left")
    tab.fill("#text", "77 × 8")
    tab.get_by_role("button", name="Solve").click()
    address = re.sub(".*#", "#", tab.url)
    assert address == "#a=77&b=8&model=tiny-seed0&beside=lattice&view=r90"
    assert tab.get_attribute("#link", "href") == address
    again = open_page(address)
    shown_again = "['text', 'model', 'beside', 'view'].map((one) => byId(one).value)"
    assert again.evaluate(shown_again) == tab.evaluate(shown_again)
    assert again.evaluate("at === total")  # solved
