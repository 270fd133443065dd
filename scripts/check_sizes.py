"""Reports functions, modules and classes that grew beyond what one reading can hold.

A function is measured in lines of code: blank lines, comments and docstrings are free. A class
is measured in the fields it declares and the names it assigns on `self`; a `BaseSettings` is free,
as a table of options is no state.
Run from the root of the repository; exits with 1 when anything is too large.
"""

import ast
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("server", "client", "tests", "bench", "examples", "scripts", "deploy")
MAX_FUNCTION_LINES = 40
MAX_MODULE_LINES = 300
MAX_CLASS_ATTRIBUTES = 12
NOT_CODE = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}


def code_lines(path: Path, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that hold code."""
    with tokenize.open(path) as source:
        tokens = [t for t in tokenize.generate_tokens(source.readline) if t.type not in NOT_CODE]
    lines = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):  # a docstring
                lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def attributes(class_: ast.ClassDef) -> set[str]:
    """Return the names of the fields a class declares or assigns on `self`."""
    names = set()
    for statement in class_.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    for node in ast.walk(class_):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def excesses(path: Path) -> Iterator[str]:
    """Yield one line for each bound that the module at `path` breaks."""
    text = path.read_text(encoding="utf-8")
    if (size := len(text.splitlines())) > MAX_MODULE_LINES:
        yield f"{path}:1: module has {size} lines, at most {MAX_MODULE_LINES}"
    tree = ast.parse(text)
    lines = code_lines(path, tree)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                size = len(lines.intersection(range(node.lineno, (node.end_lineno or 0) + 1)))
                bound, unit = MAX_FUNCTION_LINES, "lines"
            case ast.ClassDef(bases=[ast.Name(id="BaseSettings")]):
                continue
            case ast.ClassDef(name=name):
                size, bound, unit = len(attributes(node)), MAX_CLASS_ATTRIBUTES, "attributes"
            case _:
                continue
        if size > bound:
            yield f"{path}:{node.lineno}: {name} has {size} {unit}, at most {bound}"


def main() -> int:
    """Check every module under the roots that exist."""
    paths = sorted(path for root in ROOTS for path in Path(root).rglob("*.py"))
    found = [line for path in paths for line in excesses(path)]
    print("\n".join([*found, f"sizes: {len(paths)} modules, {len(found)} too large"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
