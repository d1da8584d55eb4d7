"""The changes of a module that tests.mutants tries: comparisons, conditions, numbers, returns.

Left out are changes that nobody can tell from the original, each kind by a rule with its reason.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


#: One more than a limit of memory or of effort is as good a limit.
_LARGE: Final = 100

#: Keywords of a class that change its speed and size only.
_SPEED: Final = ("gc", "slots")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of a file with another text. start and end are bytes of the file."""

    file: Path
    start: int
    end: int
    text: str
    lines: range

    @property
    def module(self) -> str:
        return ".".join(self.file.relative_to(ROOT).with_suffix("").parts)

    def source(self) -> str:
        whole = self.file.read_bytes()
        return (whole[: self.start] + self.text.encode() + whole[self.end :]).decode()

    def __str__(self) -> str:
        before = " ".join(self.file.read_bytes()[self.start : self.end].decode().split())
        where = f"{self.file.relative_to(ROOT)}:{self.lines.start}"
        return f"{where}: {shorten(before, 60)}  ->  {shorten(self.text, 60)}"


def mutants_of(file: Path) -> Iterator[Mutant]:
    source = file.read_bytes()
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for parent in _nodes(ast.parse(source)):
        for node, text in _changes(parent):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            yield Mutant(
                file,
                begins[node.lineno - 1] + node.col_offset,
                begins[node.end_lineno - 1] + node.end_col_offset,
                text,
                range(node.lineno, node.end_lineno + 1),
            )


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """No hints of types, no f-strings (Python 3.11 tells no places in them)."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name not in ("annotation", "returns", "decorator_list", "bases"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST) and not isinstance(each, ast.JoinedStr):
                    yield from () if _is_left_out(each) else _nodes(each)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Expr():  # the text of a log is nobody's input
            return ast.unparse(node).startswith("_LOG.")
        case ast.keyword(arg=name):  # strict of zip: a guard against what never comes
            return name in (*_SPEED, "strict")
        case ast.Assign(value=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            return True  # -1 for "nowhere": any number below 0 is as good
        case ast.AnnAssign(annotation=ast.Name(id="Final"), value=ast.Constant(value=float())):
            return True  # a constant that is a time: a second more is as good
        case ast.AnnAssign(annotation=ast.Name(id="Final"), value=ast.Tuple() as bounds):
            # The bounds of a histogram: others are as good.
            return not any(isinstance(each, ast.Name | ast.Call) for each in ast.walk(bounds))
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):  # never true where it runs
            return True
    return False


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """(a part of the node, another text in its place)."""
    if isinstance(node, ast.expr):
        yield from ((node, text) for text in _other_values(node))
    elif isinstance(node, ast.Return) and node.value and not _is_empty(node.value):
        yield node, "return None"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"
    elif isinstance(node, ast.Continue):
        yield node, "break"
    tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    for test in tests:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            yield test, f"(not {ast.unparse(test)})"


def _is_empty(node: ast.expr) -> bool:
    """None, and False, which whoever asks `if` can't tell from it."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _other_values(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                others = [*node.ops]
                others[place] = _COMPARISONS[type(operator)]()
                yield f"({ast.unparse(ast.Compare(node.left, others, node.comparators))})"
        case ast.BoolOp():
            other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.BinOp() if type(node.op) in _OPERATORS:
            sign = _OPERATORS[type(node.op)]()
            yield f"({ast.unparse(ast.BinOp(node.left, sign, node.right))})"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() | float() as number) if number <= _LARGE:
            yield repr(number + 1)
