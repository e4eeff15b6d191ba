"""Operators, kernels, passes, targets and templates from outside of this package.

A plugin is a folder laid out as this package is, with what it adds and nothing else:

    acme/ops/*.py                       operators and front ends, as in mccompile/ops
    acme/kernels/*.py                   variants of kernels, as in mccompile/kernels
    acme/passes/*.py                    passes on graphs; each says which one it runs behind: AFTER = "canonicalize"
    acme/targets/*.py                   targets, as in mccompile/targets
    acme/kernels_templates/<op>/*.c.j2  their templates, and _lib/vector_<isa>.c.j2

It is named on the command line (``--plugin acme``), by `add`, or by an installed package with an entry point of the
group ``mccompile.plugins``, which is a Python package of this layout. Registries that list the package list plugins
behind it; what a plugin holds is part of a program's id, so that a blob fits the program that was made with it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from mccompile._dataclass import dataclass
from mccompile.ir.c_words import HEADERS, is_c_word
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.names import free_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "mccompile.plugins"
FLOORS = ("kernels", "ops", "passes", "targets")
TEMPLATES = "kernels_templates"
_PREFIX = "mccompile_plugin_"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """A plugin: the name it is reported by, its folder, and the Python package that its modules are imported from."""

    name: str
    folder: Path
    package: str

    @property
    def paths(self) -> list[Path]:
        """Its files: Python and templates, and all else that lies in the folders of `FLOORS` and `TEMPLATES`."""
        found = []
        for where, inside, names in os.walk(self.folder, followlinks=True):
            inside[:] = sorted(name for name in inside if name != "__pycache__" and not name.startswith("."))
            parts = Path(where).relative_to(self.folder).parts
            above = (self.folder.joinpath(*parts[:i]) for i in range(len(parts)))
            if any(os.path.samefile(where, folder) for folder in above):  # a link to where it lies
                inside.clear()
                continue
            own = bool(parts) and parts[0] in (*FLOORS, TEMPLATES)
            shown = (Path(where, name) for name in sorted(names) if not name.startswith("."))
            found += [path for path in shown if own or path.suffix in (".py", ".j2")]
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of its files by name, in hexadecimal."""
        return _digest({path.relative_to(self.folder).as_posix(): path.read_bytes() for path in self.paths})

    @property
    def key(self) -> str:
        """All that results depend on."""
        return f"{self.name} {self.digest}"


def _digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 of files by name, in hexadecimal."""
    total = hashlib.sha256()
    for name, data in files.items():
        total.update(f"{name} {len(data)}\n".encode() + data)
    return total.hexdigest()


_added: dict[str, Plugin] = {}
_registries: list[Callable[[], None]] = []


def registry(listing: Callable[P, T]) -> Callable[P, T]:
    """What is there: looked up once for its arguments, and again when there are more plugins."""
    kept: Any = functools.cache(listing)
    _registries.append(kept.cache_clear)
    return cast(Callable[P, T], kept)


def add(folder: str | Path) -> Plugin:
    """Use the plugin in a folder from now on. Again for the same folder it does nothing.

    Raises:
        UsageError: there is no such folder, nothing in it that a plugin has, or another plugin is called the same.
    """
    path = Path(folder).resolve()
    if not any((path / part).is_dir() for part in (*FLOORS, TEMPLATES)):
        known = ", ".join((*FLOORS, TEMPLATES))
        raise UsageError(f"'{folder}' is no plugin", hint=f"a plugin is a folder with some of: {known}")
    name = path.name
    old = next((p for p in plugins() if p.name == name), None)
    if old is not None and old.folder != path:
        raise UsageError(f"there are two plugins called {name}: {old.folder} and {path}")
    if old is None:
        plain = "".join(c if c.isalnum() else "_" for c in name)
        package = free_name(f"{_PREFIX}{plain}", {p.package for p in _added.values()})
        root = ModuleType(package)
        root.__path__ = [str(path)]
        sys.modules[package] = root
        _added[name] = Plugin(name, path, package)
        for clear in _registries:
            clear()
    return _added.get(name) or next(p for p in plugins() if p.name == name)


@registry
def plugins() -> tuple[Plugin, ...]:
    """All plugins by name: those of installed packages, and those that were added."""
    found = dict(_added)
    for entry in _entry_points():
        try:
            spec = importlib.util.find_spec(entry.module)
        except Exception as e:  # it imports the packages around, of which one may be gone, or raise what it likes
            why = f"{type(e).__name__}: {e}"
            raise CompileError(f"the plugin {entry.name} names {entry.module}, which is not there: {why}") from e
        if spec is None or not spec.submodule_search_locations:
            raise CompileError(f"the plugin {entry.name} names {entry.module}, which is no package")
        found[entry.name] = Plugin(entry.name, Path(spec.submodule_search_locations[0]), entry.module)
    return tuple(found[name] for name in sorted(found))


def _entry_points() -> Iterable[EntryPoint]:
    """Those of the group. Python's own search takes longer to import than to search the folders of packages for the
    files that it reads; it searches where a file names the group, or packages may be elsewhere than in folders."""
    finders = [f for f in sys.meta_path if hasattr(f, "find_distributions")]
    if finders == [PathFinder] and not any(map(_names_the_group, sys.path)):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _names_the_group(place: str) -> bool:
    """Whether a package in a folder of the search path may have entry points of the group."""
    folder = Path(place)
    if not folder.is_dir():
        return folder.exists()
    files = (f for kind in ("*.dist-info", "*.egg-info", "EGG-INFO") for f in folder.glob(f"{kind}/entry_points.txt"))
    return any(GROUP in f.read_text(encoding="utf-8", errors="replace") for f in files)


@dataclass(frozen=True)
class Function:
    """A function of C that computes an operator: it is called as its header is.

    Beside ``low_pass.h`` there may be ``low_pass.c``, which is compiled with the network, and ``low_pass.py``, whose
    function ``low_pass`` computes the same for references: it takes arrays, and attributes by name.
    """

    domain: str
    op_type: str
    header: Path

    @property
    def name(self) -> str:
        return self.header.stem

    @property
    def source(self) -> Path | None:
        """Its C file, if it has one."""
        path = self.header.with_suffix(".c")
        return path if path.is_file() else None

    @property
    def twin(self) -> Path:
        """The file of its twin in Python, which need not be there."""
        return self.header.with_suffix(".py")

    @property
    def has_twin(self) -> bool:
        """Whether Python knows what it computes."""
        return self.twin.is_file()

    @property
    def paths(self) -> list[Path]:
        """Its files: its C, and its twin, by which nodes of constants are computed."""
        return [*self._c, *([self.twin] if self.has_twin else [])]

    @property
    def _c(self) -> list[Path]:
        return [p for p in (self.header, self.source) if p is not None]

    @property
    def files(self) -> dict[str, bytes]:
        """What is written beside the generated C, by name."""
        return {p.name: p.read_bytes() for p in self._c}

    @property
    def digest(self) -> str:
        """SHA-256 of its C, in hexadecimal."""
        return _digest(self.files)

    @property
    def key(self) -> str:
        """All that results depend on: what it computes, too, and its twin."""
        return f"{self.domain}:{self.op_type} {self.name} {_digest({p.name: p.read_bytes() for p in self.paths})}"

    def evaluate(self, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> list[Any]:
        """What the twin in Python answers, as a list. CompileError where there is none, or it fails."""
        if not self.has_twin:
            raise CompileError(
                f"{self.name} has no twin in Python to compare with",
                hint=f"write {self.twin.name} beside {self.header.name}, with {self.name}(x0, .., attribute=..)",
            )
        function = _twin(self.twin, self.name, self.twin.read_bytes())
        try:
            found = function(*arrays, **attributes)
        except Exception as e:
            raise _unusable(self.twin, e) from e
        return list(found) if isinstance(found, tuple | list) else [found]


@functools.cache
def _twin(path: Path, name: str, source: bytes) -> Callable[..., Any]:
    """The function of a name in a file of Python; the file may be written again while this process runs."""
    module = ModuleType(f"mccompile_twin_{name}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for what annotations name
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
        function: Callable[..., Any] = getattr(module, name)
    except Exception as e:
        raise _unusable(path, e) from e
    return function


def _unusable(path: Path, e: Exception) -> CompileError:
    return CompileError(f"{path.name} cannot be used: {type(e).__name__}: {e}", where=str(path))


_functions: dict[tuple[str, str], Function] = {}


def add_function(text: str) -> Function:
    """Compute an operator by a function of C from now on: ``com.acme:LowPass=low_pass.h`` (docs/plugins.md).

    Raises:
        UsageError: text that is not like that, no such header, or a name that C or ONNX has already.
    """
    operator, equals, path = text.partition("=")
    domain, colon, op_type = operator.partition(":")
    header = Path(path).resolve()
    if not (equals and colon and domain and op_type and path.endswith(".h")):
        raise UsageError(f"'{text}' has to be like com.acme:LowPass=low_pass.h")
    if not header.is_file():
        raise UsageError(f"there is no file '{path}'")
    name = header.stem
    taken = name.startswith("mcc_") or name in ("mcc", *HEADERS) or is_c_word(name)
    if taken or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise UsageError(f"{header.name} is named after no function", hint="low_pass.h declares low_pass()")
    made = Function(domain, op_type, header)
    other = next((f for f in _functions.values() if f.name == made.name and f.header != header), None)
    if other is not None:
        raise UsageError(f"there are two headers called {header.name}: {other.header} and {header}")
    if _functions.get((domain, op_type)) != made:
        _functions[domain, op_type] = made
        for clear in _registries:
            clear()
    return made


def functions() -> Mapping[tuple[str, str], Function]:
    """The functions of C that compute operators, by domain and name of the operator."""
    return _functions


def made_with() -> list[Plugin | Function]:
    """What results depend on beside this package: plugins, and functions of C."""
    return [*plugins(), *(_functions[key] for key in sorted(_functions))]


def modules(floor: str) -> list[ModuleType]:
    """The modules of a floor, such as ``ops``: those of this package, then those of plugins.

    Raises CompileError where a plugin's module cannot be imported.
    """
    package = importlib.import_module(f"mccompile.{floor}")
    names = sorted(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    found = [importlib.import_module(name) for name in names]
    for plugin in plugins():
        within = sorted(path.stem for path in (plugin.folder / floor).glob("*.py") if path.stem != "__init__")
        found += [_imported(plugin, f"{plugin.package}.{floor}.{name}") for name in within]
    return found


def _imported(plugin: Plugin, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as e:
        where = f"{plugin.folder}/{name.removeprefix(plugin.package + '.').replace('.', '/')}.py"
        raise CompileError(f"the plugin {plugin.name} cannot be read: {type(e).__name__}: {e}", where=where) from e


def template_folders() -> list[Path]:
    """The folders of plugins that hold templates."""
    return [plugin.folder / TEMPLATES for plugin in plugins() if (plugin.folder / TEMPLATES).is_dir()]
