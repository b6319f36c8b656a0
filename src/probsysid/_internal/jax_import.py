"""JAX is configured as soon as it is imported, by whomever, and not imported for that.

`import probsysid` and the command line's help need no JAX, which takes longer to import than all the rest.  But its
settings (`jax_setup`) count only if they are made before it computes anything, and a user's script may do so between
`import probsysid` and the first use of the package.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

JAX = "jax"

SETTINGS = "probsysid._internal.jax_setup"
"""Importing it makes the settings.  If it is this module that imports JAX, it makes them as soon as JAX is there."""


def configure_jax() -> None:
    """Make JAX's settings: now if it has been imported, else when it is."""
    if JAX in sys.modules:
        importlib.import_module(SETTINGS)
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds JAX as Python does.  Others may ask for it without importing it, so it stays until JAX is there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != JAX:
            return None
        others = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(self, spec.loader)
        return spec


class _Loader(Loader):
    """Loads JAX by its own loader, which it hands over to, and makes the settings."""

    def __init__(self, finder: _Finder, loader: Loader) -> None:
        self.finder, self.loader = finder, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.loader
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        importlib.import_module(SETTINGS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)
