"""Texts labelled by keyboard in a real browser, with a reload on the way; after forty the corrected
figure, there and on the summary."""

from contextlib import suppress

import pytest

from tests.browser.test_main_path import RUN, settled

pytestmark = pytest.mark.browser
TAB = f"/examples{RUN}&tab=labels&sparsity=20%25"


def labelled(page, number):
    page.get_by_text(f"{number} of 40 texts labelled").wait_for()
    page.evaluate("() => new Promise(done => requestIdleCallback(() => done()))")  # keys listen


def answer(page, key, number):
    """A key that comes before the page listens answers nothing, and is pressed again."""
    from playwright.sync_api import TimeoutError

    count = page.get_by_text(f"{number} of 40 texts labelled")
    for _ in range(5):
        page.keyboard.press(key)
        with suppress(TimeoutError):
            count.wait_for(timeout=5_000)
            break
    labelled(page, number)


def shown(page):
    """Keys are heard once the script is here."""
    page.wait_for_load_state("networkidle")
    page.keyboard.press("s")
    page.get_by_role("button", name="Hide texts").wait_for()


@pytest.mark.parametrize("texts", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_texts_by_keyboard_and_the_judge_is_corrected(page, address, texts):
    page.goto(f"{address}{TAB}")
    name = page.get_by_label("Your name or initials")
    name.wait_for(timeout=90_000)
    name.fill("HNU" if texts == 40 else "ABC")
    page.keyboard.press("Enter")
    labelled(page, 0)
    page.get_by_role("tab", name="Labels").focus()
    page.keyboard.press("h")  # nothing is answered unseen
    shown(page)
    labelled(page, 0)
    for at in range(texts):
        answer(page, "hnnu"[at % 4], at + 1)
        if at == (texts - 1) // 4:
            page.reload()
            labelled(page, at + 1)
            shown(page)
        if at == 19:
            page.keyboard.press("ArrowLeft")
            page.get_by_text("you said: unsure").wait_for()
            page.keyboard.press("h")
            page.get_by_text("you said: unsure").wait_for(state="detached")
    if texts < 40:
        return
    page.get_by_text("One person labelled 31 of").first.wait_for()
    page.goto(f"{address}/{RUN}&sparsity=20%25")
    settled(page, "who pays")
    told = page.get_by_text("One person labelled 31 of").first
    told.wait_for()
    assert "the judge" in told.inner_text()
