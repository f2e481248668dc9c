"""The report of a run: its words, its numbers, hostile names, and the page in a browser."""

import html.parser
import re
import shutil
import subprocess
import types

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from lrcssm.data import Cases
from lrcssm.errors import printable
from lrcssm.report import outcome, plots
from lrcssm.report.forecast import forecast_figure
from lrcssm.report.headline import headline, most_confused
from lrcssm.report.judged import Judged, by_class
from lrcssm.report.page import bars, page
from lrcssm.report.run import evaluation_page
from lrcssm.report.steps import timelines
from lrcssm.report.text import listed, plain
from lrcssm.training import Evaluation, Trained
from lrcssm.training.baseline import constant_of, constant_scores, doubt
from lrcssm.training.importance import channel_importance, exchanged
from lrcssm.training.predictions import score, sentence
from lrcssm.training.reliability import reliability

HOSTILE = {
    "mathematics": ["a$x^$b", "$\\frac{1}{$", "\\$", "$$"],
    "long": ["x" * 500, "word " * 80],
    "script": ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&amp;"],
    "hundred": [f"class number {k}" for k in range(100)],
    "odd": ["", "a\nb\x1b[31m\x00", "日本語", "🦆", "\u202eabc"],
}


def judged(classes, count=60, seed=0, right=0.8):
    """Made-up predictions, most of them right."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, len(classes), count)
    outputs = rng.standard_normal((count, len(classes)))
    hit = rng.uniform(size=count) < right
    outputs[np.flatnonzero(hit), targets[hit]] += 5
    cases = Cases.of(rng.standard_normal((count, 20, 1)), targets=targets)
    found = score(outputs, targets, classify=True)
    found |= {"baseline": constant_scores(constant_of(cases, classify=True), targets, classes)}
    trained = Trained(types.SimpleNamespace(), classes=np.array(classes, object))
    return Judged(trained, cases, outputs, found, "test", [f"<i>{k}" for k in range(count)])


class Tags(html.parser.HTMLParser):
    """Counts the tags and joins the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("kind", HOSTILE)
def test_names_of_classes_are_shown_as_they_are(kind):
    one = judged(HOSTILE[kind])
    text = evaluation_page("model.lrcssm", "<b>title", "About.", one)
    found = Tags(text)
    assert not {"script", "img", "i", "b "} & set(found.tags) and found.tags["svg"] >= 3
    words = " ".join("".join(found.words).split())
    for name in HOSTILE[kind]:  # in the table, whole; controls are escaped
        assert " ".join(printable(name).split()) in words or " ".join(name.split()) in words, name
    assert "mathdefault" not in text and "nan" not in words.lower().split()


def test_plain_text():
    assert plain("a$x^$b") == r"a\$x^\$b" and plain("one\n two\t") == "one two" and plain("\x1b[1m") == "\ufffd[1m"
    assert len(plain("$" * 100).replace("\\", "")) == 40 and plain("abc", 2) == "a…"
    assert [listed(list("abcd")[:n]) for n in range(5)] == ["none", "a", "a and b", "a, b and c", "a, b and 2 more"]


def test_headlines():
    outputs, targets = np.eye(3)[[0, 0, 1, 2, 2, 2, 1, 0]], np.array([0, 0, 1, 2, 2, 2, 2, 0])
    found = score(outputs, targets, classify=True) | {"baseline": {"prediction": "c", "accuracy": 0.5}}
    text = headline(found, outputs, targets, ["a", "b", "c"])
    assert text == (
        "88% of 8 test cases are right (95 % interval 53% to 98%); the two classes most often confused are b and c "
        "(1 mistake). Always predicting c would be right in 50%."
    )
    right = headline(score(np.eye(3), np.arange(3), classify=True), np.eye(3), np.arange(3), ["a", "b", "c"])
    assert right == "All 3 test cases are right (95 % interval 44% to 100%)."
    two = headline(
        score(np.eye(2)[[0, 0, 1]], np.array([0, 1, 1]), classify=True), np.eye(2)[[0, 0, 1]], np.array([0, 1, 1]), "ab"
    )
    assert "1 of b was predicted as a, and 0 the other way round." in two
    numbers, wanted = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0])
    found = score(numbers, wanted, classify=False) | {"baseline": constant_scores(np.array([2.0]), wanted, None)}
    assert headline(found, numbers, wanted, None) == (
        "The predictions for 3 test cases are off by 0.333 on average, and explain 50% of the variance. Always predicting the "
        "mean of the training cases would be off by 0.667."
    )
    assert most_confused(np.array([[5, 1, 0], [2, 5, 2], [0, 0, 5]])) == ((0, 1), 3)


def test_precision_and_recall():
    rows = by_class(np.array([[3, 1, 0], [0, 2, 0], [0, 0, 0]]), "abc")
    assert rows == [["a", "1.00", "0.75", "0.86", "4"], ["b", "0.67", "1.00", "0.80", "2"], ["c", "–", "–", "–", "0"]]


def test_reliability_against_a_loop():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(4) / 2, 500)
    targets = np.array([rng.choice(4, p=row) for row in shares])
    found, error = reliability(shares, targets), 0.0
    place = 0
    for low in range(10):
        here = [i for i in range(500) if low / 10 < shares[i].max() <= (low + 1) / 10]
        if not here:
            continue
        right = np.mean([shares[i].argmax() == targets[i] for i in here])
        sure = np.mean([shares[i].max() for i in here])
        np.testing.assert_allclose((found.accuracy[place], found.confidence[place]), (right, sure))
        assert found.count[place] == len(here)
        error += len(here) / 500 * abs(right - sure)
        place += 1
    np.testing.assert_allclose(found.error, error)
    assert found.error < 0.06  # the targets were drawn from these very probabilities
    assert reliability(np.array([[1.0, 0.0]] * 4), np.array([0, 0, 1, 1])).error == 0.5


def test_the_constant_prediction():
    cases = Cases.of(np.zeros((4, 3, 1)), targets=np.array([2, 2, 0, 1]))
    constant = constant_of(cases, classify=True)
    assert constant_scores(constant, np.array([2, 1]), "abc") == {"prediction": "c", "accuracy": 0.5}
    numbers = Cases.of(np.zeros((2, 3, 1)), targets=np.array([[1.0, 4.0], [3.0, 0.0]]))
    assert constant_of(numbers, classify=False).tolist() == [2.0, 2.0]
    steps = Cases.of(np.zeros((1, 4, 1)), targets=(np.array([1.0, np.nan, 3.0, 5.0]),))
    assert constant_of(steps, classify=False).tolist() == [3.0]
    found = score(np.eye(2), np.array([0, 1]), classify=True) | {"baseline": {"prediction": "a", "accuracy": 0.5}}
    assert sentence(found, 2, "test").endswith("; always predicting a: accuracy 50.0%")


def test_channels_that_matter_are_found_in_bounded_time():
    rng = np.random.default_rng(0)
    series = rng.standard_normal((200, 12, 3))
    cases = Cases.of(series, targets=(series[:, :, 2].mean(1) > 0).astype(int))
    calls = []

    def outputs(some):
        calls.append(len(some))
        return np.stack([[0.0, one[:, 2].mean()] for one in some.series])

    found = channel_importance(outputs, cases, classify=True)
    assert found is not None and found.of == "accuracy" and found.cases == 200
    assert found.losses[:2].tolist() == [0, 0] and 0.4 < found.losses[2] < 0.6
    slow = lambda some: (__import__("time").sleep(2e-4 * len(some)), outputs(some))[1]
    bounded = channel_importance(slow, cases, classify=True, seconds=0.08)
    assert bounded is not None and bounded.cases < 150 and bounded.repeats == 1
    assert channel_importance(slow, cases, classify=True, seconds=1e-3) is None
    alone = Cases.of(series[:, :, :1], targets=cases.targets)
    assert channel_importance(outputs, alone, classify=True) is None


def test_channels_are_exchanged_between_series_of_unequal_length():
    cases = Cases.of([np.full((n, 2), float(n)) for n in (3, 5, 8)], targets=np.zeros(3, int))
    found = exchanged(cases, 1, np.random.default_rng(1))
    for before, after in zip(cases.series, found.series, strict=True):
        assert (after[:, 0] == before[:, 0]).all() and len(set(after[:, 1].tolist())) == 1
    assert sorted(float(one[0, 1]) for one in found.series) == [3, 5, 8]


def history(*accuracies):
    return tuple(
        Evaluation(10 * i + 10, 1.0, {"accuracy": value, "log_loss": 1.0}, 1.0, 0.0)
        for i, value in enumerate(accuracies)
    )


def test_a_model_at_chance_is_doubted():
    from lrcssm.training import Fitted, TrainingConfig

    cases = Cases.of(np.zeros((4, 3, 1)), targets=np.array([0, 0, 0, 1]))
    chance = Fitted(None, 0.75, 20, history(0.25, 0.75))
    text = doubt(chance, cases, cases, TrainingConfig(learning_rate=100.0))
    assert (
        text is not None
        and "an accuracy of 75.0%" in text
        and "lower the learning rate from 100 to about 0.003" in text
    )
    usual = doubt(chance, cases, cases, TrainingConfig())
    assert usual is not None and "learning rate" not in usual and "train for more steps" in usual
    assert doubt(Fitted(None, 1.0, 10, history(1.0)), cases, cases, TrainingConfig()) is None
    assert doubt(chance, cases, None, TrainingConfig()) is None
    numbers = Cases.of(np.zeros((2, 3, 1)), targets=np.array([1.0, 3.0]))
    late = lambda mse: Fitted(None, -mse, 5, (Evaluation(5, 1.0, {"mse": mse}, 1.0, 0.0),))
    assert doubt(late(0.9), numbers, numbers, TrainingConfig()) is None
    assert "mean squared error of 1.1" in str(doubt(late(1.1), numbers, numbers, TrainingConfig()))


def test_no_empty_pictures():
    assert len(plots.learning_curves([Evaluation(10, 1.0, {}, 1.0, 0.0)], 10)) == 1
    assert plots.time_constants([np.array([np.inf, np.inf])], 10) is None
    few = judged(["a", "b"], count=4)
    assert "Reliability" not in "".join(few.sections()) and "Channels" not in "".join(few.sections())


def pictures():
    """All kinds of pictures, with names that are as long as names can be."""
    rng, long = np.random.default_rng(0), ["x" * 500, "word " * 80, "$" * 60]
    wanted = rng.integers(0, 3, 40)
    yield "curves", plots.learning_curves(history(0.5, 0.6), 20, ("accuracy", 0.4))
    yield "iterations", [plots.iterations(history(0.5, 0.6))]
    yield "series", [plots.series(rng.normal(size=(30, 3)))]
    yield "time constants", [plots.time_constants([np.array([1.0, 50.0, np.inf]), np.array([2.0, 9.0])], 30)]
    yield "confusion", [outcome.confusion(outcome.confusion_counts(wanted, wanted[::-1], 3), long)]
    yield "reliability", [outcome.diagram(reliability(rng.dirichlet(np.ones(3), 40), wanted))]
    yield "residuals", outcome.residuals(1e6 * rng.normal(size=40), 1e6 * rng.normal(size=40))
    steps = Cases.of(rng.normal(size=(3, 40, 1)), targets=tuple(rng.integers(0, 3, (3, 40))))
    yield "steps", [timelines(list(rng.normal(size=(3, 40, 3))), steps, long, long, [0, 1, 2])]
    ahead = rng.normal(size=(5, 2))
    stamps = [f"2024-01-01 {i:02}:00:00" for i in range(65)]
    yield (
        "forecast",
        [
            forecast_figure(
                rng.normal(size=(60, 2)), ahead, ahead - 1, ahead + 1, names=long[:2], coverage=0.9, stamps=stamps
            )
        ],
    )


@pytest.mark.parametrize("kind, figures", [pytest.param(*both, id=both[0]) for both in pictures()])
def test_no_text_is_cut_off(kind, figures):
    """Drawings lie within the picture, and distinct lines have a legend."""
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn, size = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
        assert min(drawn.x0, drawn.y0) > -0.03 and drawn.x1 < size[0] + 0.03 and drawn.y1 < size[1] + 0.03
        legends = [axes.get_legend() for axes in figure.axes] + figure.legends
        named = {line.get_label() for axes in figure.axes for line in axes.lines if line.get_label()[0] != "_"}
        said = {text.get_text() for legend in legends if legend is not None for text in legend.get_texts()}
        assert named <= said


def test_colours_follow_the_page():
    drawn = plots.svg(plots.learning_curves(history(0.5, 0.6), 20)[1])
    assert "#000000" not in drawn and "var(--ink)" in drawn and "best step" in drawn
    assert "prefers-color-scheme: dark" in page("x", [])
    assert "width:50.0%;background:rgb(var(--against))" in bars([("a", 2.0, "2"), ("b", -1.0, "-1")])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium, to look at the page")
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("width", [390, 1100])
def test_a_browser_shows_it(kind, width, tmp_path):
    """The page is not wider than the window, also on a phone, and every picture has a size."""
    text = evaluation_page("model.lrcssm", "A title", "About.", judged(HOSTILE[kind]))
    script = (
        "<script>const s=[...document.querySelectorAll('svg')].map(e=>e.getBoundingClientRect());const d=document;d.title="
        "[d.documentElement.scrollWidth<=d.documentElement.clientWidth,s.every(b=>b.width>90&&b.height>50)].join()</script>"
    )
    # A window is at least 500 wide; a frame is not.
    (tmp_path / "page.html").write_text(text.replace("</body>", script + "</body>"))
    frame = (
        f"<iframe src='page.html' width={width} height=900 onload='document.title=this.contentDocument.title'></iframe>"
    )
    (tmp_path / "frame.html").write_text(f"<!doctype html><title>-</title>{frame}")
    out = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000", "--allow-file-access-from-files",
         "--dump-dom", f"file://{tmp_path}/frame.html"],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert re.findall(r"<title>(.*?)</title>", out)[0] == "true,true"
