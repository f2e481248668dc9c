"""Common mistakes in files: each gives one sentence that names the file and, for text, the line."""

import zipfile

import numpy as np
import pytest

from lrcssm import FileError
from lrcssm.data.readers import read

TS = "@problemName a\n@classLabel true a b\n@data\n"
MISTAKES = {
    "a.ts": {
        r"line 5: the label 'c' is not one of 'a', 'b'": TS + "1,2:a\n1,2:c\n",
        "line 4: its dimensions have from 1 to 2 values": TS + "1,2:3:a\n",
        "line 5: it has 2 dimensions where 1": TS + "1,2:a\n1,2:1,2:a\n",
        "line 4: 'x' is not a number": TS + "1,x:a\n",
        "line 4: a value between two separators": TS + "1,,2:a\n",
        "line 4: '1e39' is beyond single precision": TS + "1,1e39:a\n",
        "line 4: there is no target": TS + "1,2",
        "line 2: there is no @data": "@problemName a\n",
        "line 1: '1,2,3' comes before @data": "1,2,3\n@data\n",
        "line 1: @univariate is followed by 'maybe'": "@univariate maybe\n@data\n",
        "needs @classLabel": "@univariate true\n@data\n1,2:3,3\n",
        "@equalLength is true": "@equalLength true\n@data\n1,2\n1\n",
        "line 3: the times of dimension 0": "@timestamps true\n@data\n(1,2),(1,3)\n",
        "line 3: 'soon' is not a time": "@timestamps true\n@data\n(0,2),(soon,3)\n",
        "line 3: the target 'x' is not a finite": "@targetLabel true\n@data\n1,2:x\n",
        "holds no case": TS,
        "line 4: there is a zero byte": TS + "1,\0",
        "line 4: it is not text in UTF-8": TS.encode() + b"1,2:\xff\n",
        "is empty": "\n \n",
    },
    "a.arff": {
        "line 4: it has 3 values for 2": "@attribute a real\n@attribute c {x}\n@data\n1,2,x\n",
        "line 4: the label 'y' is not one of 'x'": "@attribute a real\n@attribute c {x}\n@data\n1,y\n",
        "line 1: the attribute 'a' has the type 'string'": "@attribute a string\n@data\n",
        "line 3: it is written sparsely": "@attribute a real\n@data\n{0 1}\n",
        "not closed": "@attribute a real\n@attribute c {x}\n@data\n'1,x\n",
        "several attributes": "@attribute c {x}\n@attribute d {x}\n@data\n",
        "comes before the @end": "@attribute r relational\n@attribute a real\n@data\n",
    },
    "a.csv": {
        "could all be the case": "case,id,a\n1,1,2\n",
        "'label', 'class' could all be the target; rename all but one, or choose with target=": "label,class,a\n1,1,2\n",
        "'label', 'y' could all be the target": "y,label,t0,t1\n1,u,2,3\n2,v,2,3\n",
        "line 3: '2.5' has a decimal point and '1,5' a decimal comma": "case;time;a\np;0;1,5\np;1;2.5\n",
        "line 2: '1.234' has a decimal point": "case;time;a\np;0;1.234\np;1;2,5\n",
        "in column 'a' '1,5' is not a number; write it with a decimal point": 'y,a\np,"1,5"\n',
        "line 2: it has 2 cells where the first row has 3": "y,a,b\n1,2\n",
        "line 3: in column 'b' 'x' is not a number": "y,a,b\np,1,2\nq,1,x\n",
        "line 1: there is only one column": "1\n2\n",
        "neither a header nor numbers": "a,1,b,2\n",
        "line 3: the target is 'q' here and 'p'": "case,t,a,y\n1,0,1,p\n1,1,2,q\n",
        "line 3: this time occurs twice": "case,t,a\n1,0,1\n1,0,2\n",
        "line 2: its target is missing": "y,a,b\n,1,2\n",
        "line 3: its target is missing": "case,t,a,y\n1,0,1,5\n1,1,2,\n",
        "line 3: in column 'y' 'inf' is beyond single precision; give finite numbers below 3e38\\.$": "case,t,a,y\n1,0,1,5\n1,1,2,inf\n",
        "line 1: 'gdp', 'price' could be steps": "gdp,price\n1,2\n",
        "line 1: 0, 1, 2 and so on": "0,1,2\n1,2,3\n",
        "quotes or columns": 'y,a\n"p"x,1\n',
        "a header and no rows": "y,a,b\n",
    },
    "a.xyz": {"is not a file that ends in .ts, .arff, .npz, .csv, .tsv, .txt, .parquet, nor": "1,2"},
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, found in MISTAKES.items() for text in found])
def test_mistakes_in_text(name, text, tmp_path):
    data = MISTAKES[name][text]
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(FileError, match=text) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ("neither X nor stream", {"a": np.ones(3)}),
        (r"X of shape \(3,\)", {"X": np.ones(3)}),
        ("X as objects", {"X": np.array([[1, None]], object)}),
        ("y as objects", {"X": np.ones((2, 3)), "y": np.array(["a", None], object)}),
        ("has y of shape", {"X": np.ones((2, 3)), "y": np.ones(3)}),
        ("case 1: a value is beyond", {"X": np.array([[1.0], [1e39]])}),
        ("which is empty", {"X": np.ones((2, 0, 3))}),
        ("y from 0 to 2 and 2 classes", {"X": np.ones((2, 3)), "y": np.array([0, 2]), "classes": np.array(["a", "b"])}),
        ("lengths of shape", {"X": np.ones((2, 3)), "lengths": np.array([3, 4])}),
        ("split of shape", {"X": np.ones((2, 3)), "split": np.array([0, 3])}),
        ("index but no n_total", {"X": np.ones((2, 3)), "index": np.array([0, 1])}),
        ("names a position twice", {"X": np.ones((2, 3)), "index": np.array([1, 1]), "n_total": 3}),
        ("times of shape", {"X": np.ones((2, 3)), "times": np.ones((2, 2))}),
        ("do not increase", {"X": np.ones((2, 3)), "times": np.ones((2, 3))}),
        ("target that is not a finite", {"X": np.ones((2, 3)), "y": np.array([1.0, np.nan])}),
    ],
)
def test_mistakes_in_npz(text, arrays, tmp_path):
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    with pytest.raises(FileError, match=text) as caught:
        read(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; give a file"):
        read(tmp_path / "a.ts")
    with pytest.raises(FileError, match="holds nothing that can be read"):
        read(tmp_path)
    (tmp_path / "a.csv").write_bytes(b"")
    with pytest.raises(FileError, match="is empty"):
        read(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"1,2")
    (tmp_path / "c.ts").write_bytes(b"")
    with pytest.raises(FileError, match=r"holds 'a\.csv', 'b\.csv', 'c\.ts'; expected"):
        read(tmp_path)
    (tmp_path / "a.csv").unlink()
    (tmp_path / "c.ts").unlink()
    assert len(read(tmp_path)) == 1
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X.npy", b"\x93NUMPY")
    with pytest.raises(FileError, match="in an unsupported way"):
        read(tmp_path / "a.npz")
