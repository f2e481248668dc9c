"""Series and their targets, written to files of every format that is read. Nothing of lrcssm is used."""

import math

import numpy as np


def written(value):
    return "?" if math.isnan(value) else repr(float(value))


def quoted(label):
    mark = '"' if "'" in label else "'"
    return f"{mark}{label}{mark}"


def write_ts(path, series, labels=None, classes=None, times=None):
    target = "" if labels is None else "@targetLabel true\n"
    if classes is not None:
        target = f"@classLabel true {' '.join(map(quoted, classes))}\n"
    rows = [
        "# made by hand",
        "% and more",
        f"@problemName {path.name.split('.')[0]}",
        f"@dimensions {series[0].shape[1]}",
    ]
    rows += [f"@timeStamps {str(times is not None).lower()}", target + "@data"]
    for i, one in enumerate(series):
        dimensions = [[written(value) for value in channel] for channel in one.T]
        if times is not None:
            dimensions = [[f"({t},{v})" for t, v in zip(times[i], cells, strict=True)] for cells in dimensions]
        fields = [",".join(cells) for cells in dimensions]
        if labels is not None:
            fields.append(quoted(labels[i]) if classes is not None else repr(float(labels[i])))
        rows.append(":".join(fields))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_arff(path, series, labels, classes):
    def escaped(label):
        return "'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'"

    longest = max(map(len, series))
    rows = ["% made by hand", f"@relation {path.name.split('.')[0]}", "@attribute series relational"]
    rows += [f"  @attribute t{i} numeric" for i in range(longest)] + ["@end series"]
    rows += [f"@attribute target {'numeric' if classes is None else '{' + ','.join(map(escaped, classes)) + '}'}"]
    rows += ["@data"]
    for one, label in zip(series, labels, strict=True):
        padded = np.concatenate([one, np.full((longest - len(one), one.shape[1]), np.nan)])
        inner = "\\n".join(",".join(map(written, channel)) for channel in padded.T)
        rows.append(f"'{inner}',{escaped(label) if classes else repr(float(label))}")
    path.write_text("\n".join(rows), encoding="utf-8")


def write_long(path, series, labels, classes, times=None):
    def cell(label):
        return '"' + label.replace('"', '""') + '"' if classes else repr(float(label))

    channels = series[0].shape[1]
    rows = [",".join(["Case", "time", *(f"channel {k}" for k in range(channels)), "target"])]
    for i, one in enumerate(series):
        for t, values in enumerate(one):
            time = t if times is None else times[i][t]
            rows.append(",".join([f"c{i}", str(time), *("" if math.isnan(v) else written(v) for v in values),
                                  cell(labels[i])]))  # fmt: skip
    path.write_text("\n".join(rows), encoding="utf-8")


def write_npz(path, series, labels, classes):
    longest = max(map(len, series))
    padded = np.full((len(series), longest, series[0].shape[1]), np.nan, np.float32)
    for i, one in enumerate(series):
        padded[i, : len(one)] = one
    more = {} if classes is None else {"classes": np.array(classes)}
    y = np.array(labels, float) if classes is None else np.array([classes.index(label) for label in labels])
    np.savez(path, X=padded, y=y, lengths=np.array([len(one) for one in series]), **more)


WRITERS = {".ts": write_ts, ".arff": write_arff, ".csv": write_long, ".npz": write_npz}


def make(rng, cases=6, channels=3, missing=True):
    series = [rng.normal(size=(n, channels)).astype(np.float32) for n in rng.integers(2, 9, cases)]
    if missing:
        for one in series:
            one[:-1][rng.random((len(one) - 1, channels)) < 0.2] = np.nan
    return series
