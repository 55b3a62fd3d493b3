"""Every small fault that can be planted in a module's source, each a change of one node.

What is never changed: docstrings and other text, annotations, imports, decorators, how a class is
made (`frozen`, `kw_only`), what `zip` makes sure of and what only a type checker reads. A fault
there is either no fault or no business of a test of behaviour. A number from ten on is a size that
was tuned, and nobody would notice one more of it: it is doubled.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class Mutant(NamedTuple):
    """One fault: where it is, what stood there, what stands there now."""

    line: int
    before: str
    after: str
    change: Callable[[ast.Module], None]
    """Plants it in a fresh tree of the same source."""

    def plant(self, source: str) -> ast.Module:
        """The module with this fault in it."""
        tree = ast.parse(source)
        self.change(tree)
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.line}: {self.before} → {self.after}"


def mutants_of(source: str) -> list[Mutant]:
    """Every fault that can be planted in this source, in the order of its lines."""
    tree = ast.parse(source)
    left_alone = _left_alone(tree)
    found = [
        _mutant(number, node, changed)
        for number, node in enumerate(ast.walk(tree))
        if node not in left_alone
        for changed in _changes(node)
    ]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.before, mutant.after))


def _mutant(number: int, node: ast.AST, changed: ast.AST) -> Mutant:
    def change(tree: ast.Module) -> None:
        target = list(ast.walk(tree))[number]
        _Swap(target, copy.deepcopy(changed)).visit(tree)

    before = ast.unparse(node).splitlines()[0]
    after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(changed))).splitlines()[0]
    return Mutant(getattr(node, "lineno", 0), before, after, change)


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def _left_alone(tree: ast.Module) -> set[ast.AST]:
    """The nodes that are no code of behaviour."""
    return {
        below for node in ast.walk(tree) for part in _no_behaviour(node) for below in ast.walk(part)
    }


def _no_behaviour(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from node.keywords
    if isinstance(node, ast.keyword) and node.arg == "strict":
        yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        yield node
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        yield node
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"TypeVar", "NewType", "cast"}:
        yield node


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may be changed into."""
    match node:
        case ast.Compare(ops=[first, *rest]):
            yield _with(node, ops=[_COMPARED[type(first)](), *rest])
        case ast.BoolOp(op=ast.And()):
            yield _with(node, op=ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _with(node, op=ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(op=op) if type(op) in _CALCULATED:
            yield _with(node, op=_CALCULATED[type(op)]())
        case ast.AugAssign(op=op) if type(op) in _CALCULATED:
            yield _with(node, op=_CALCULATED[type(op)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1 if value < 10 else value * 2)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 2 + 1)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield _with(node, test=_opposite(test))
        case ast.Return(value=value) if value is not None and not _is_nothing(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield()):
            yield ast.Pass()
        case ast.Delete() | ast.Raise():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Slice(lower=lower, upper=upper) if lower is not None or upper is not None:
            yield ast.Slice()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _opposite(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _is_nothing(value: ast.expr) -> bool:
    """Whether it is None or as good as None; True in the place of False is a fault of its own."""
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)
