"""Every public name has a docstring, and `help()` shows those of modules, classes and functions."""

import ast
import importlib
import inspect
import pkgutil
import pydoc
from pathlib import Path

import pytest

import statestore

FOUND = [module.name for module in pkgutil.walk_packages(statestore.__path__, "statestore.")]
MODULES = ["statestore", *(name for name in FOUND if not name.rpartition(".")[2].startswith("_"))]
# Files with attributes and aliases of types, whose docstrings are only in the source.
FILES = ["_results.py", "_state.py", "_errors.py", "options.py"]


def exported(module):
    defined = [name for name, value in vars(module).items() if inspect.getmodule(value) is module]
    for name in getattr(module, "__all__", defined):
        value = getattr(module, name)
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isroutine(value)):
            yield name, value


def members(cls):
    """The public methods and properties that the library declares."""
    for base in cls.__mro__:
        if base.__module__.startswith("statestore"):
            for name, value in vars(base).items():
                is_method = callable(value) or isinstance(value, (classmethod, staticmethod))
                if not name.startswith("_") and (is_method or inspect.isdatadescriptor(value)):
                    yield name, getattr(cls, name)


def test_every_public_module_is_checked():
    assert {"statestore", "statestore.aio", "statestore.options", "statestore.testing"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_class_method_and_function_has_a_docstring(name):
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    shown = pydoc.plain(pydoc.render_doc(module))
    without = []
    for member, value in exported(module):
        own = vars(value).get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
        # A dataclass without a docstring gets its signature.
        if not own or own.startswith(f"{member}("):
            without.append(member)
        elif inspect.isclass(value) and value.__module__.startswith("statestore"):
            assert own.strip().splitlines()[0] in shown, f"help() does not show the docstring of {member}"
            without += [f"{member}.{part}" for part, of_class in members(value) if not inspect.getdoc(of_class)]
    assert not without


def names_without_docstring(body, prefix=""):
    for statement, following in zip(body, [*body[1:], None]):
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            yield from names_without_docstring(statement.body, f"{statement.name}.")
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        is_documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_") and not is_documented:
                yield f"{prefix}{target.id}"


@pytest.mark.parametrize("file", FILES)
def test_every_attribute_and_alias_has_a_docstring(file):
    path = Path(statestore.__file__).parent / file
    module = importlib.import_module(f"statestore.{path.stem}")
    without = set(names_without_docstring(ast.parse(path.read_text(encoding="utf-8")).body))
    if file == "_errors.py":
        # The base class documents these.
        without = {name for name in without if not name.endswith((".kind", ".code"))}
    assert {name for name in without if "." in name or name in module.__all__} == set()
