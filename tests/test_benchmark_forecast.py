"""The benchmark of forecasters, on short series."""

import json

import numpy as np
import pytest
from wing import run

from lrcssm.estimators.backtest import SeasonalNaive
from lrcssm_paper.benchmark import forecast, series


def test_series_are_what_they_say():
    drawn = {name: one.make() for name, one in series.SERIES.items() if not one.package}
    for name, (values, past) in drawn.items():
        again, _ = series.SERIES[name].make()
        np.testing.assert_array_equal(values, again)
        assert np.isfinite(values).all() and f"{len(values):,} steps" in series.SERIES[name].about
        assert (past is None) == (name != "driven")
    y = drawn["autoregressive"][0][:, 0]
    # Its own weights leave noise of scale 1 over.
    rest = y[3:] - 1.1 * y[2:-1] + 0.5 * y[1:-2] - 0.2 * y[:-3]
    assert abs(rest.std() - 1) < 0.05 and abs(np.corrcoef(rest[1:], rest[:-1])[0, 1]) < 0.1


def test_the_record(tmp_path, monkeypatch, capsys):
    waves = lambda: (np.sin(np.arange(60) * np.pi / 6)[:, None] + 0.01 * np.arange(60)[:, None], None)
    monkeypatch.setattr(
        forecast,
        "SERIES",
        {"wave": series.Series(waves, 12, 3, "short"), "absent": series.Series(waves, 1, 3, "", "nothing")},
    )
    monkeypatch.setitem(forecast.FORECASTERS, "always wrong", lambda *given: Wrong(3, 12))
    path = tmp_path / "record.json"
    words = ["benchmark", "forecast", "--origins", "3", "--json", str(path), "--picture", str(tmp_path / "a.png")]
    run(*words, "--models", "seasonal naive", "always wrong")
    printed = capsys.readouterr().out
    record = json.loads(path.read_text())
    assert record["unavailable"] == ["absent"] and "Left out, because aeon is not installed: absent." in printed
    rows = {row["model"]: row for row in record["rows"]}
    assert list(rows) == ["ridge on lags", "seasonal naive", "always wrong"]
    assert rows["seasonal naive"]["mae"] == pytest.approx(0.12) and rows["seasonal naive"]["origins"] == 3
    summary = {one["model"]: one for one in record["summary"]}
    ratio = rows["always wrong"]["mae"] / rows["ridge on lags"]["mae"]
    assert summary["always wrong"]["ratios"]["wave"] == pytest.approx(ratio) == summary["always wrong"]["mean"]
    assert summary["always wrong"]["better"] == 0 and summary["ridge on lags"]["mean"] == 1
    assert "--models 'seasonal naive' 'always wrong'" in record["command"] and (tmp_path / "a.png").exists()


class Wrong(SeasonalNaive):
    def forecast(self, values, past, future):
        return super().forecast(values, past, future) + 1000
