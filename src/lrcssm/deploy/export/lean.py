"""Translation of a step into an ONNX graph with few nodes.

In onnxruntime each node costs about 0.4 µs, however little it computes, which is nearly all the time of a step of a small
model. The jaxpr of one row is translated: axes of size 1 are dropped, so that most reshapes vanish; values that depend on
parameters alone are computed during translation; and `fusion` merges nodes. A primitive without a translation raises `Unknown`.

Compared with jax2onnx 0.17 (AMD EPYC, one thread, bound inputs, best times): 35 against 72 µs for the published EigenWorms
model; for 20 small models of all cells jax2onnx needs 18 to 33 % more; and jax2onnx writes no valid step for patches,
complex LRC and products in bfloat16.
"""

# pyright: reportAttributeAccessIssue=false
# (where onnx is not installed, pyright takes onnx.py of this folder for it)
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx  # pyright: ignore[reportMissingImports]
from onnx import helper, numpy_helper  # pyright: ignore[reportMissingImports]

from .fusion import Node, rewritten
from .programs import Program

OPSET = 18
_HALF = jnp.bfloat16
_SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow", "neg": "Neg",
    "exp": "Exp", "log": "Log", "tanh": "Tanh", "logistic": "Sigmoid", "abs": "Abs", "sqrt": "Sqrt", "sin": "Sin",
    "cos": "Cos", "erf": "Erf", "sign": "Sign", "not": "Not", "and": "And", "or": "Or", "gt": "Greater", "lt": "Less",
    "ge": "GreaterOrEqual", "le": "LessOrEqual", "eq": "Equal", "floor": "Floor",
}  # fmt: skip
_INSIDE = (
    "jit",
    "pjit",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "remat",
    "checkpoint",
)
_VIEWS = ("reshape", "squeeze", "expand_dims", "copy", "copy_p", "stop_gradient", "optimization_barrier")


class Unknown(NotImplementedError):
    """A primitive without a translation."""


class Value(NamedTuple):
    """A tensor of the graph; its shape there is 1, followed by the axes of `shape` that are not 1."""

    name: str
    shape: tuple[int, ...]


def lean_model(made: Program, name: str = "lrcssm") -> onnx.ModelProto:
    """Translate the step of one row."""
    assert made.row is not None
    shapes = {key: tuple(1 if isinstance(n, str) else n for n in shape) for key, shape in made.inputs.items()}
    structs = [jax.ShapeDtypeStruct(shape[1:], made.dtypes[key]) for key, shape in shapes.items()]
    closed = jax.make_jaxpr(made.row)(*structs)
    graph = Graph()
    found = graph.run(closed.jaxpr, closed.consts, [Value(key, shape[1:]) for key, shape in shapes.items()])
    results = {key: (1, *aval.shape) for key, aval in zip(made.outputs, closed.out_avals, strict=True)}
    for (key, shape), value in zip(results.items(), found, strict=True):
        graph.nodes.append(Node("Identity", (graph.shaped(value, shape),), (key,), {}))
    nodes = rewritten(graph.nodes, made.outputs)
    return _proto(nodes, shapes, made.dtypes, results, name)


class Graph:
    """Nodes in an order in which they can be computed."""

    def __init__(self):
        self.nodes: list[Node] = []

    def emit(self, kind: str, inputs: tuple[Any, ...], **options: Any) -> str:
        """Append a node; returns the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node(kind, inputs, (name,), options))
        return name

    def shaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        """A value as a tensor of exactly this shape: a name, or a constant."""
        if not isinstance(value, Value):
            return np.reshape(value, shape)
        if _short(value.shape) == tuple(shape):
            return value.name
        return self.emit("Reshape", (value.name, np.array(shape, np.int64)))

    def run(self, jaxpr: Any, consts: Any, arguments: Any) -> list[Any]:
        """Translate a jaxpr; returns its outputs."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(np.asarray, consts), strict=True))
        known |= dict(zip(jaxpr.invars, arguments, strict=True))
        read = lambda atom: np.asarray(atom.val) if hasattr(atom, "val") else known[atom]
        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            outputs = self.translate(equation, inputs)
            known |= dict(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def translate(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """Translate one equation, or compute it if its inputs are constants."""
        name, options = equation.primitive.name, equation.params
        if name in _INSIDE:
            inner = options.get("jaxpr", options.get("call_jaxpr"))
            if hasattr(inner, "jaxpr"):
                return self.run(inner.jaxpr, inner.consts, inputs)
            return self.run(inner, (), inputs)
        if not any(isinstance(value, Value) for value in inputs):
            found = equation.primitive.bind(*inputs, **options)
            return [np.asarray(one) for one in (found if equation.primitive.multiple_results else [found])]
        if name == "cond":
            return self._cond(equation, inputs)
        if name == "split":
            return self._split(inputs[0], options)
        shape, dtype = equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype
        if np.issubdtype(dtype, np.complexfloating):
            raise Unknown("complex numbers")
        if name in _VIEWS:
            return [Value(inputs[0].name, shape)] if _short(inputs[0].shape) == _short(shape) else [
                Value(self.emit("Reshape", (inputs[0].name, np.array(_short(shape), np.int64))), shape)
            ]  # fmt: skip
        rule: Callable[..., str] | None = getattr(self, f"_{name}", None)
        if name in _SAME:
            made = self.emit(_SAME[name], tuple(self.spread(value, shape) for value in inputs))
        elif rule is not None:
            made = rule(inputs, shape, dtype, options)
        else:
            raise Unknown(name)
        return [Value(made, shape)]

    def _cond(self, equation, inputs):
        """Compute both branches and choose between their results."""
        which, *others = inputs
        branches = equation.params["branches"]
        if len(branches) != 2:
            raise Unknown("a choice of more than two")
        false, true = (self.run(branch.jaxpr, branch.consts, others) for branch in branches)
        chosen = Value(self.emit("Cast", (which.name,), to=onnx.TensorProto.BOOL), ())
        results = []
        for variable, no, yes in zip(equation.outvars, false, true, strict=True):
            shape, dtype = variable.aval.shape, variable.aval.dtype
            same = isinstance(no, Value) and isinstance(yes, Value) and no == yes
            if same:
                results.append(no)
            else:
                results.append(Value(self._select_n([chosen, no, yes], shape, dtype, {}), shape))
        return results

    def spread(self, value: Any, shape: tuple[int, ...]) -> Any:
        """An operand of an elementwise operation, in a shape that ONNX broadcasts to `shape`."""
        own = np.shape(value) if not isinstance(value, Value) else value.shape
        own = (1,) * (len(shape) - len(own)) + tuple(own)
        kept = [n for n, size in zip(own, shape, strict=True) if size != 1]
        if not isinstance(value, Value):
            return np.reshape(value, (1, *kept))
        return self.shaped(Value(value.name, value.shape), (1, *_drop_leading_ones(kept)))

    def _convert_element_type(self, inputs, shape, dtype, options):
        if dtype == _HALF:  # rounded, but kept in float32: onnxruntime has no such products on a CPU
            rounded = self.emit("Cast", (inputs[0].name,), to=onnx.TensorProto.BFLOAT16)
            return self.emit("Cast", (rounded,), to=onnx.TensorProto.FLOAT)
        return self.emit("Cast", (inputs[0].name,), to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _is_finite(self, inputs, shape, dtype, options):
        name = inputs[0].name
        return self.emit("Not", (self.emit("Or", (self.emit("IsNaN", (name,)), self.emit("IsInf", (name,)))),))

    def _integer_pow(self, inputs, shape, dtype, options):
        if options["y"] == 2:
            return self.emit("Mul", (inputs[0].name, inputs[0].name))
        return self.emit("Pow", (inputs[0].name, np.asarray(options["y"], dtype)))

    def _square(self, inputs, shape, dtype, options):
        return self.emit("Mul", (inputs[0].name, inputs[0].name))

    def _rsqrt(self, inputs, shape, dtype, options):
        return self.emit("Reciprocal", (self.emit("Sqrt", (inputs[0].name,)),))

    def _log1p(self, inputs, shape, dtype, options):
        return self.emit("Log", (self.emit("Add", (inputs[0].name, np.ones(1, dtype))),))

    def _expm1(self, inputs, shape, dtype, options):
        """tanh(x/2) (exp(x) + 1), which is accurate for small x."""
        half = self.emit("Tanh", (self.emit("Mul", (inputs[0].name, np.full(1, 0.5, dtype))),))
        return self.emit("Mul", (half, self.emit("Add", (self.emit("Exp", (inputs[0].name,)), np.ones(1, dtype)))))

    def _ne(self, inputs, shape, dtype, options):
        return self.emit("Not", (self.emit("Equal", tuple(self.spread(value, shape) for value in inputs)),))

    def _select_n(self, inputs, shape, dtype, options):
        if len(inputs) != 3:
            raise Unknown("select_n of more than two")
        which, false, true = (self.spread(value, shape) for value in inputs)
        if np.issubdtype(dtype, np.bool_):  # onnxruntime has no Where for booleans
            other = self.emit("And", (self.emit("Not", (which,)), false))
            return self.emit("Or", (self.emit("And", (which, true)), other))
        return self.emit("Where", (which, true, false))

    def _broadcast_in_dim(self, inputs, shape, dtype, options):
        """A view if only axes of size 1 are added; otherwise an Expand."""
        (value, *_), places = inputs, options["broadcast_dimensions"]
        within = [1] * len(shape)
        for place, size in zip(places, value.shape, strict=True):
            within[place] = size
        name = self.shaped(value, _short(tuple(within)))
        if tuple(within) == tuple(shape):
            return name
        kept = _drop_leading_ones([n for n, size in zip(within, shape, strict=True) if size != 1])
        name = self.shaped(Value(name, tuple(within)), (1, *kept))
        return self.emit("Expand", (name, np.array(_short(shape), np.int64)))

    def _reduce(self, kind, inputs, options):
        value = inputs[0]
        axes = [axis for axis in options["axes"] if value.shape[axis] != 1]
        if not axes:
            return value.name
        places = [1 + sum(n != 1 for n in value.shape[:axis]) for axis in axes]
        return self.emit(kind, (value.name, np.array(places, np.int64)), keepdims=0)

    def _reduce_sum(self, inputs, shape, dtype, options):
        return self._reduce("ReduceSum", inputs, options)

    def _reduce_max(self, inputs, shape, dtype, options):
        return self._reduce("ReduceMax", inputs, options)

    def _reduce_min(self, inputs, shape, dtype, options):
        return self._reduce("ReduceMin", inputs, options)

    def _dot_general(self, inputs, shape, dtype, options):
        (left, right), (batch_left, batch_right) = options["dimension_numbers"]
        a, b = inputs
        if batch_left and isinstance(a, Value) and not isinstance(b, Value):
            return self._product_of_each(a, b, shape, (left, right, batch_left, batch_right))
        if not isinstance(b, Value) and b.dtype == _HALF:
            b = b.astype(np.float32)
        if isinstance(b, Value) or not isinstance(a, Value) or np.ndim(b) != 2 or batch_left or len(left) != 1:
            raise Unknown(f"a product of two values, {a} and {b if isinstance(b, Value) else np.shape(b)}")
        if left[0] != len(a.shape) - 1:
            raise Unknown("a product along another axis than the last one")
        rows = tuple(n for n in a.shape[:-1] if n != 1)
        name = self.shaped(a, (1, *rows, a.shape[-1]))
        made = self.emit("Gemm" if not rows else "MatMul", (name, b if right[0] == 0 else b.T))
        return self._settled(made, (1, *rows, b.shape[1 - right[0]]), shape)

    def _product_of_each(self, a, b, shape, axes):
        """Products of values with constant matrices, one for each place of leading axes."""
        count = len(axes[2])
        first = tuple(range(count))
        if axes != ((len(a.shape) - 1,), (count,), first, first) or np.ndim(b) != count + 2:
            raise Unknown(f"a product of {a.shape} and {np.shape(b)} along {axes}")
        batch, rows = a.shape[:count], int(np.prod(a.shape[count:-1]))
        name = self.shaped(a, (1, *batch, rows, a.shape[-1]))
        return self._settled(self.emit("MatMul", (name, b)), (1, *batch, rows, b.shape[-1]), shape)

    def _gather(self, inputs, shape, dtype, options):
        """Rows of a value at constant places."""
        value, places = inputs
        if not isinstance(value, Value) or isinstance(places, Value) or value.shape[0] == 1:
            raise Unknown("a gather at computed places")
        how, rest = options["dimension_numbers"], value.shape[1:]
        rows = how.collapsed_slice_dims == how.start_index_map == (0,) and how.operand_batching_dims == ()
        last = how.offset_dims == tuple(range(len(shape) - len(rest), len(shape)))
        if not (rows and last and tuple(options["slice_sizes"]) == (1, *rest)):
            raise Unknown("a gather of other than rows")
        places = np.asarray(places, np.int64)[..., 0]
        made = self.emit("Gather", (value.name, places), axis=1)
        return self._settled(made, (1, *places.shape, *(n for n in rest if n != 1)), shape)

    def _transpose(self, inputs, shape, dtype, options):
        value, order = inputs[0], [axis for axis in options["permutation"] if inputs[0].shape[axis] != 1]
        if order == sorted(order):
            return value.name
        return self.emit("Transpose", (value.name,), perm=[0, *(1 + sorted(order).index(axis) for axis in order)])

    def _settled(self, name, found, shape):
        """Reshape a result to its shape without axes of size 1, if necessary."""
        return name if found == _short(shape) else self.emit("Reshape", (name, np.array(_short(shape), np.int64)))

    def _concatenate(self, inputs, shape, dtype, options):
        axis = options["dimension"]
        parts = []
        for value in inputs:
            own = value.shape if isinstance(value, Value) else np.shape(value)
            if 0 in own:
                continue
            wanted = (1, *(n for i, (n, size) in enumerate(zip(own, shape, strict=True)) if size != 1 or i == axis))
            parts.append(self.shaped(value, wanted))
        place = 1 + sum(n != 1 for n in shape[:axis])
        return self.emit("Concat", tuple(parts), axis=place) if len(parts) > 1 else parts[0]

    def _stack(self, inputs, shape, dtype, options):
        axis = options["axis"]
        longer = lambda own: (*own[:axis], 1, *own[axis:])
        parts = [
            Value(value.name, longer(value.shape)) if isinstance(value, Value) else np.expand_dims(value, axis)
            for value in inputs
        ]
        return self._concatenate(parts, shape, dtype, {"dimension": axis})

    def _dynamic_update_slice(self, inputs, shape, dtype, options):
        """Concatenate the values before the updated part, the part, and the values after it."""
        value, part, *begin = inputs
        if any(isinstance(place, Value) for place in begin):
            raise Unknown("an update at a computed position")
        own = part.shape if isinstance(part, Value) else np.shape(part)
        cut = [i for i, (n, size) in enumerate(zip(own, shape, strict=True)) if n != size]
        if len(cut) != 1 or not isinstance(value, Value):
            raise Unknown("an update of more than one axis")
        axis, start = cut[0], int(begin[cut[0]])

        def piece(low, high):
            starts, ends = [0] * len(shape), list(shape)
            starts[axis], ends[axis] = low, high
            size = tuple(high - low if i == axis else n for i, n in enumerate(shape))
            given = {"start_indices": starts, "limit_indices": ends, "strides": None}
            return Value(self._slice([value], size, None, given), size)

        ends = (0, start), (start + own[axis], shape[axis])
        before, after = ([piece(*end)] if end[1] > end[0] else [] for end in ends)
        return self._concatenate([*before, part, *after], shape, dtype, {"dimension": axis})

    def _rev(self, inputs, shape, dtype, options):
        name = inputs[0].name
        for axis in options["dimensions"]:
            if shape[axis] > 1:
                place = 1 + sum(n != 1 for n in shape[:axis])
                name = self.emit("Gather", (name, np.arange(shape[axis])[::-1].astype(np.int64)), axis=place)
        return name

    def _split(self, value, options):
        """Slices, which `fusion` merges into one node."""
        axis, begin, parts = options["axis"], 0, []
        for size in map(int, options["sizes"]):
            starts, ends = [0] * len(value.shape), list(value.shape)
            starts[axis], ends[axis] = begin, begin + size
            shape = tuple(size if i == axis else n for i, n in enumerate(value.shape))
            cut = {"start_indices": starts, "limit_indices": ends, "strides": None}
            parts.append(Value(self._slice([value], shape, None, cut), shape))
            begin += size
        return parts

    def _slice(self, inputs, shape, dtype, options):
        value = inputs[0]
        if options["strides"] is not None and any(n != 1 for n in options["strides"]):
            raise Unknown("a slice with strides")
        begin, end = options["start_indices"], options["limit_indices"]
        cut = [i for i, n in enumerate(value.shape) if n != end[i] - begin[i]]
        if not cut:
            return value.name
        places = [1 + sum(n != 1 for n in value.shape[:i]) for i in cut]
        arrays = (np.array([numbers[i] for i in cut], np.int64) for numbers in (begin, end))
        made = self.emit("Slice", (value.name, *arrays, np.array(places, np.int64)), size=value.shape[cut[-1]])
        left = tuple(end[i] - begin[i] if i in cut else n for i, n in enumerate(value.shape) if n != 1)
        return self._settled(made, (1, *left), shape)


def _short(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, *(n for n in shape if n != 1))


def _drop_leading_ones(sizes: list[int]) -> list[int]:
    while sizes and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def _proto(nodes, inputs, dtypes, outputs, name) -> onnx.ModelProto:
    initializers, protos = [], []
    for node in nodes:
        names = []
        for one in node.inputs:
            if isinstance(one, str):
                names.append(one)
                continue
            names.append(f"c{len(initializers)}")
            initializers.append(numpy_helper.from_array(np.ascontiguousarray(one), names[-1]))
        options = {} if node.kind == "Slice" else node.options  # the size is only for `fusion`
        protos.append(helper.make_node(node.kind, names, list(node.outputs), **options))
    kind = lambda dtype: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    real = next(dtype for dtype in dtypes.values() if dtype != np.dtype(bool))
    graph = helper.make_graph(
        protos,
        name,
        [helper.make_tensor_value_info(key, kind(dtypes[key]), shape) for key, shape in inputs.items()],
        [helper.make_tensor_value_info(key, kind(real), shape) for key, shape in outputs.items()],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="lrcssm")
    model.ir_version = 9
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise Unknown(str(error)) from error
    return model
