"""`lrcssm predict`: predictions of a trained model, for data or for a stream of samples."""

import dataclasses
import io
import json
import pathlib
import sys
from typing import Annotated

from ..compilation import remember_compilations
from ..data import Dataset
from ..data.readers import NoTargetColumn
from ..deploy.lines import predict_lines
from ..engine.solvers import SOLVERS
from ..features import STREAMED, LiquidModel
from ..files import write_text
from ..memory import keep_memory
from ..training import Trained
from ..training.folder import RunError
from ..training.predictions import as_csv, rows_of
from .evaluate import load_new, new_cases, open_model
from .options import Model, NewData
from .parser import Arg


@dataclasses.dataclass(frozen=True)
class Predict:
    """Apply a trained model to data, with or without targets."""

    model: Model
    """Run folder or model file."""
    source: Annotated[str | None, Arg("SOURCE", positional=True)] = None
    """A name, file or folder of data."""
    stream: bool = False
    """Read samples from standard input instead, one per line, as CSV or JSON, and print a prediction for each as JSON."""
    out: Annotated[str | None, Arg("FILE.csv")] = None
    """File to write instead of standard output."""
    new: NewData = NewData()
    json: bool = False
    """Write one JSON object per case (or per step, for a per-step model) instead of CSV."""

    def run(self) -> None:
        """Write predictions."""
        if self.stream:
            self._stream()
            return
        if self.source is None:
            raise RunError("There is nothing to predict; name the data, or give --stream for standard input.")
        target = None if self.out is None else pathlib.Path(self.out)
        if target is not None and not target.parent.is_dir():
            raise RunError(f"{target} cannot be written: its folder does not exist.")
        keep_memory()
        remember_compilations()
        trained = open_model(self.model)
        data = _load(self.source, self.new, trained)
        # Predictions need no targets, so what is wrong with those of the data does not matter.
        cases = new_cases(dataclasses.replace(data, targets=None, classes=None), self.new, trained)
        outputs = trained.outputs(cases, solver=SOLVERS[self.new.solver])
        rows = list(rows_of(outputs, trained.names, data.ids))
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows) if self.json else as_csv(rows)
        if target is None:
            sys.stdout.write(text)
        else:
            write_text(target, text)

    def _stream(self) -> None:
        """Predict for standard input until it ends."""
        import jax

        if self.out is not None or self.source is not None:
            raise RunError("--stream reads standard input and writes standard output; give neither SOURCE nor --out.")
        # A step takes less time than to hand it to another thread.
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        trained = open_model(self.model)
        if self.new.missing is not None:
            trained = dataclasses.replace(trained, missing=self.new.missing)
        if (reason := trained.model.whole()) is not None:
            hint = ""
            if isinstance(trained.model, LiquidModel):
                hint = f"; train one with --views {' '.join(STREAMED)}"
            elif trained.model.config.bidirectional:
                hint = "; train one with --bidirectional no"
            raise RunError(f"{self.model} holds a model that {reason}, so it cannot predict sample by sample{hint}.")
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # what is no text is then a bad line, not the end
        try:
            good, refused = predict_lines(trained, sys.stdin, sys.stdout, sys.stderr)
        except KeyboardInterrupt:
            return
        if refused and not good:
            raise RunError(f"All {refused} lines were refused; see above.")


def _load(source: str, new: NewData, trained: Trained) -> Dataset:
    """Data to predict; for a per-step model, the targets of a table may differ from step to step."""
    if trained.task != "per-step":
        return load_new(source, new, trained)
    try:
        return load_new(source, new, trained, task="per-step")
    except NoTargetColumn:
        return load_new(source, new, trained)
