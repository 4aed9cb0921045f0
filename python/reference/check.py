"""Check that every public name of the package is documented: modules, classes, functions, methods, properties, fields, and constants.

    python reference/check.py

Prints those that are not, and fails. A name is public if no part of it begins with an underscore; of a module with ``__all__``, if it is
in there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import anabranch
from sphinx.pycode import ModuleAnalyzer


def modules() -> Iterator[ModuleType]:
    """The public modules."""
    yield anabranch
    for found in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def sources(module: ModuleType) -> ast.Module:
    """Its syntax tree."""
    return ast.parse(inspect.getsource(module))


def own_names(module: ModuleType) -> list[str]:
    """Public names: those of ``__all__``, or those that the module itself defines."""
    declared: list[str] | None = getattr(module, "__all__", None)
    if declared is not None:
        return declared
    names: list[str] = []
    for node in sources(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def fields(kind: type) -> dict[str, str]:
    """Fields of a class and of its bases here, with the modules that declare them."""
    found: dict[str, str] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("anabranch"):
            found |= {name: base.__module__ for name in base.__dict__.get("__annotations__", {}) if not name.startswith("_")}
    return found


def is_field_documented(kind: type, name: str) -> bool:
    """True if there is a ``#:`` before the field in the class or one of its bases."""
    for base in kind.__mro__:
        if base.__module__.startswith("anabranch") and base.__module__ != "anabranch._anabranch":
            if (base.__qualname__, name) in ModuleAnalyzer.for_module(base.__module__).find_attr_docs():
                return True
    return False


def undocumented(name: str, thing: Any, module: str) -> Iterator[str]:
    """Parts of a public name that are not documented: itself, and members."""
    if inspect.ismodule(thing):
        return
    if not (inspect.isclass(thing) or callable(thing)) or getattr(thing, "__module__", "").startswith("typing"):
        if ("", name.rpartition(".")[2]) not in ModuleAnalyzer.for_module(module).find_attr_docs():
            yield name
        return
    if not inspect.isclass(thing):
        if not thing.__doc__:
            yield name
        return
    if not thing.__dict__.get("__doc__") or str(thing.__doc__).startswith(thing.__name__ + "("):
        yield name
    for member in vars(thing):
        value = inspect.getattr_static(thing, member)
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        is_own = inspect.isfunction(value) or isinstance(value, property)
        if not member.startswith("_") and is_own and not value.__doc__:
            yield f"{name}.{member}"
    for field in fields(thing):
        if not is_field_documented(thing, field):
            yield f"{name}.{field}"


def main() -> int:
    missing, count = [], 0
    for module in modules():
        if not module.__doc__:
            missing.append(module.__name__)
        for name in own_names(module):
            thing = getattr(module, name)
            count += 1
            # Of a name that a package passes on, the module that defines it is checked.
            if module is anabranch and getattr(thing, "__module__", "anabranch").startswith("anabranch."):
                continue
            home = module.__name__
            if not inspect.isclass(thing) and not callable(thing) and module is anabranch:
                continue
            missing += undocumented(f"{module.__name__}.{name}", thing, home)
    for name in sorted(set(missing)):
        print(f"not documented: {name}", file=sys.stderr)
    print(f"{count} public names, {len(set(missing))} of them or of their members without documentation")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
