"""The report on a store: from made-up results, against numbers that are worked out by hand or by scipy."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
import types

import numpy as np
import pytest
from scipy import stats
from wing import ROOT, run

from lrcssm_paper import jobs, ranks, records, store, traces
from lrcssm_paper.tables import TABLES

SEEDS = (2345, 3456, 4567, 5678, 6789)
FACTS = {"date": "2026-01-01T00:00", "versions": {"lrcssm": "0"}, "backend": "cpu", "processor": "none", "cores": 1}


def made(table, row, dataset, seed, test, solver="auto", steps=100, protocol: jobs.Protocol = "clean", **more):
    job = jobs.make_job(TABLES[table], row, dataset, seed, protocol, {"steps": steps}, solver)
    result = {"test": test, "seconds": 9.0, "training_seconds": 8.0, "train_cases": 392, "environment": FACTS}
    return records.Record(job, table, "data", result | more)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Four models on three data sets, one of them incomplete; iterations of one; one that failed."""
    folder, found = tmp_path_factory.mktemp("store"), []
    for place, row in enumerate(("LRU", "S5", "S6", "LrcSSM")):
        for dataset in ("Heart", "SCP1", "Ethanol"):
            for seed in SEEDS if (row, dataset) != ("S6", "Heart") else SEEDS[:2]:
                found.append(made("table1", row, dataset, seed, 0.5 + 0.1 * place))
    during = [[50, [2.0, 3.0]], [100, [4.0, 5.0]]]
    kept = {"quantiles": [0, 10, 25, 50, 75, 90, 100], "before": [[1, 2, 3, 4, 5, 6, 7]] * 2}
    for seed in SEEDS[:2]:
        found.append(made(
            "iterations", "LrcSSM", "SCP1", seed, 0.85, solver="deer", iterations=3.5, iterations_during=during,
            iterations_by_layer=[3.0, 4.0], time_constants=kept | {"after": [[1, 2, 3, 4000, 5000, 6000, None]] * 2},
        ))  # fmt: skip
    found.append(made("table1", "LrcSSM", "SCP1", 2345, 0.84, protocol="published", train_cases=300))
    records.add_results(folder, found)
    failed = made("table1", "LrcSSM", "Motor", 2345, 0.0)
    (folder / failed.identity).mkdir()
    (folder / failed.identity / "job.json").write_text(json.dumps(dataclasses.asdict(failed.job)))
    (folder / failed.identity / "failure.json").write_text(json.dumps({"error": "the loss is <nan>"}))
    return folder


def test_lines(filled):
    cells = [(row, dataset) for row in ("LrcSSM", "S6", "Transformer") for dataset in ("Heart", "SCP1", "Motor")]
    found = store.lines_of(TABLES["table1"], cells, SEEDS, None, records.read_store(filled))
    lines = {(line.model, line.dataset, line.protocol, line.solver): line for line in found}
    clean = lines["LrcSSM", "SCP1", "clean", "auto"]
    assert clean.ours == pytest.approx((80.0, 0.0)) and clean.complete and (clean.steps, clean.whole) == (100, 294000)
    assert clean.remarks == ("fewer steps than the published runs had at most",) and clean.seconds == 8.0
    assert lines["LrcSSM", "SCP1", "clean", "deer"].mean("iterations_by_layer").tolist() == [3.0, 4.0]
    quirky = lines["LrcSSM", "SCP1", "published", "auto"]
    assert len(quirky.results) == 1 and quirky.remarks[0].startswith("trained on 300 of 392 cases")
    assert lines["LrcSSM", "Motor", "clean", "auto"].remarks[0] == "failed: the loss is <nan>"
    assert len(lines["S6", "Heart", "clean", "auto"].results) == 2
    assert lines["Transformer", "Heart", "clean", ""].remarks == ("no configuration is published",)
    fewer = store.lines_of(TABLES["table1"], [("LrcSSM", "SCP1")], SEEDS, 7, records.read_store(filled))
    assert [line.results for line in fewer] == [()]


@pytest.fixture(scope="module")
def report(filled):
    """The page and the text on all tables."""
    for name in ("report.html", "report.md"):
        run("reproduce", "--report", str(filled / name), "--store", str(filled))
    return filled / "report.html"


def test_page(report):
    text = report.read_text()
    assert not re.search(r"(src|href)=[\"'](?!#)", text.replace('xlink:href="#', "")) and "<script" not in text
    assert text.count("<svg") == text.count("</svg>") >= 6
    for table in TABLES.values():
        assert html.escape(table.title) in text
    assert "the loss is &lt;nan&gt;" in text and "<nan>" not in text
    assert "85.2 ± 2.1" in text and "<b>80.0 ± 0.0 [" in text and "60 runs" not in text
    assert "3 models over Heart, SCP1 and Ethanol" in text and "Left out, for want of a data set: S6." in text
    assert "3 data sets are too few for the test" in text
    assert "11 models over Heart, SCP1, SCP2, Ethanol, Motor and Worms" in text
    assert "which is that of the complex model" in text


def test_markdown(report):
    text = report.with_suffix(".md").read_text()
    assert "| LrcSSM | SCP1 | clean | 100 of 294,000 | auto | 85.2 ± 2.1 | 80.0 ± 0.0 | -5.2 | 5 of 5 |" in text
    assert "| LrcSSM, SCP1 | 2 | 3.50 | 3.00 | 4.00 |" in text
    assert "| LrcSSM, SCP1 | 1 | 4 | 2 to 6 | 4,000 | 2 to 6,000 |" in text
    assert "<svg" not in text and "S6" in text and "| S6 | Heart | clean |" in text


def test_one_table(filled, tmp_path):
    path = tmp_path / "one.md"
    run("reproduce", "stc", "--report", str(path), "--store", str(filled))
    text = path.read_text()
    assert "None of it has been run; lrcssm reproduce stc --plan" in text and TABLES["table1"].title not in text
    assert "a sequential sweep has none" in text and "earlier versions did not write them down" in text
    for words, sentence in (
        (["--report", "page.pdf", "--store", str(filled)], "give a file that ends in .html or .md"),
        (["--report", "page.html", "--store", str(tmp_path / "none")], "which is not a folder"),
        (["table1", "--models", "S7", "--report", "page.html", "--store", str(filled)], "--models got 'S7'"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            run("reproduce", *words)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium, to look at the page")
def test_a_browser_shows_it(report, tmp_path):
    """No script, no network, nothing wider than the window, and every picture has a size."""
    probe = tmp_path / "probe.html"
    script = (
        "<script>const s=[...document.querySelectorAll('svg')].map(e=>e.getBoundingClientRect());document.title="
        "[document.documentElement.scrollWidth<=innerWidth,s.length,s.every(b=>b.width>200&&b.height>50)].join()</script>"
    )
    probe.write_text(report.read_text().replace("</body>", script + "</body>"))
    out = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,900", "--dump-dom", f"file://{probe}"],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    fits, count, sized = re.findall(r"<title>(.*?)</title>", out)[0].split(",")
    assert (fits, sized) == ("true", "true") and int(count) == report.read_text().count("<svg")


def test_friedman_against_scipy():
    rng = np.random.default_rng(0)
    for ties in (False, True):
        scores = rng.integers(0, 5, (12, 6)).astype(float) if ties else rng.normal(size=(12, 6))
        each = stats.rankdata(-scores, axis=1)
        wanted = stats.friedmanchisquare(*scores.T)
        assert ranks.friedman(each) == pytest.approx((wanted.statistic, wanted.pvalue))
    assert ranks.friedman(np.full((4, 3), 2.0)) == (0.0, 1.0)


def test_critical_difference_against_the_table_of_demsar():
    """q at 5 % for 2, 5 and 10 models is 1.960, 2.728 and 3.164; his example of 4 models on 14 sets gives 1.25."""
    for models, q in ((2, 1.960), (5, 2.728), (10, 3.164)):
        wanted = q * (models * (models + 1) / 60) ** 0.5
        assert ranks.critical_difference(10, models) == pytest.approx(wanted, rel=1e-3)
    assert ranks.critical_difference(14, 4) == pytest.approx(1.25, abs=0.005)


def test_ranks():
    rows = {"a": (3.0, 3.0, 3.0, 1.0), "b": (2.0, 2.0, 3.0), "c": (1.0, 1.0, 1.0)}
    scores = {name: dict(zip("1234", own, strict=False)) for name, own in rows.items()} | {"d": {"4": 2.0}}
    found = ranks.compare(scores)
    assert found is not None
    assert (found.names, found.datasets, found.left_out) == (("a", "b", "c"), ("1", "2", "3"), ("d",))
    assert found.ranks == pytest.approx((3.5 / 3, 5.5 / 3, 3.0))
    reverse = ranks.compare(scores, larger_is_better=False)
    assert reverse is not None and reverse.names == ("c", "b", "a")
    assert ranks.compare({name: scores[name] for name in "ab"}) is None
    wide = ranks.Ranks(("a", "b", "c", "d"), (1.0, 1.5, 2.5, 4.0), ("1",) * 5, (), 1.0, 0.5, 1.2)
    assert wide.alike() == [(0, 1), (1, 2)]
    assert ranks.Ranks(("a", "b"), (1.0, 2.0), ("1",) * 5, (), 1.0, 0.5, 0.9).alike() == []


def test_traces():
    look = lambda step, iterations, layers=(): types.SimpleNamespace(
        step=step, iterations=iterations, iterations_by_layer=layers
    )
    found = traces.iterations([look(0, 2.0), *(look(step, 2.0, (1.0, 3.0)) for step in range(1, 201))])
    assert found["iterations"] == 2.0 and found["iterations_by_layer"] == [1.0, 3.0]
    assert len(found["iterations_during"]) == traces.EVALUATIONS and found["iterations_during"][-1] == [200, [1.0, 3.0]]
    assert traces.iterations([look(1, 0.0, (0.0,))])["iterations_during"] == []
    assert traces.iterations([look(1, 0.0)]) == {"iterations": 0.0, "iterations_by_layer": [], "iterations_during": []}
    quantiles = traces._quantiles(np.array([np.inf, *range(1, 10)]))
    assert quantiles == [1.0, 1.0, 3.0, 5.0, 8.0, 9.0, None]


def test_the_page_of_results_is_up_to_date(tmp_path):
    """`lrcssm reproduce --report docs/results.md --store results/reproduce` writes it."""
    run("reproduce", "--report", tmp_path / "results.md", "--store", ROOT / "results" / "reproduce")
    assert (tmp_path / "results.md").read_text() == (ROOT / "docs" / "results.md").read_text()


def test_results_are_as_they_are_written():
    """In their order, each run once, with complete configurations."""
    path = ROOT / "results" / "reproduce"
    found = records.read_results(path)
    assert [one.to_line() for one in sorted(found, key=records._order)] == (
        path / "results.jsonl"
    ).read_text().splitlines()
    assert len({one.identity for one in found}) == len(found)
