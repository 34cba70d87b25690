"""A spec's model entry -> a model that is ready to run, and the one way its stages are called.

An adapter is the smallest thing that works:

    init_state() -> state                       step(state, *inputs) -> (state, outputs)
    reset(state) -> state      (optional)       stages: {name: callable}, called like `step`, instead of one `step`

`state` is any nest of dicts, lists, tuples, None, ints and tensors. Each call of `load_model` gives a model that shares
nothing with an earlier one: a file is executed anew, and random initial values are drawn from the same seed.
"""

import importlib
import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cadence_runtime.errors import CadenceError, TraceError
from cadence_runtime.format.plan import INIT, RESET
from cadence_runtime.host.program import Stage
from cadencec.trace import hazards
from cadencec.trace.source import SourceLines

Option = None | bool | int | float | str

_SEED = 0
HOST = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model. `adapter` is the object that the entry returned, on `device`."""

    adapter: Any
    entry: str
    device: torch.device = HOST

    def init_state(self) -> object:
        """Return the state at the start, on the model's device; a failure is a TraceError CAD3007 that names the
        line."""
        with _blamed("init_state"):
            return self._placed(self.adapter.init_state())

    @property
    def has_reset(self) -> bool:
        """Whether the model has a reset of its own."""
        return callable(getattr(self.adapter, "reset", None))

    def reset(self, state: object) -> object:
        """Return the state after a reset: the model's own, or the state at the start."""
        if not self.has_reset:
            return self.init_state()
        with _blamed("reset"):
            return self._placed(self.adapter.reset(state))

    def _placed(self, state: object) -> object:
        """Return a state with the tensors that were made on the host moved to the model's device. What the model works
        out on the host on the way stays there: on another device `exp` has other bits."""
        if self.device.type == "cpu":
            return state
        moved: dict[int, Tensor] = {}  # leaves that are one tensor stay one

        def move(leaf: Tensor) -> Tensor:
            return moved.setdefault(id(leaf), leaf.to(self.device)) if leaf.device.type == "cpu" else leaf

        return pytree.tree_map_only(Tensor, move, state)

    @property
    def has_stages(self) -> bool:
        """Whether the model gives its stages by name."""
        return getattr(self.adapter, "stages", None) is not None

    def line_of(self, name: str) -> str | None:
        """Return `file:line` of `init`, `reset` or a stage."""
        own = {INIT: "init_state", RESET: "reset" if self.has_reset else "init_state"}
        if name in own or not self.has_stages:
            return _line_of(getattr(self.adapter, own.get(name, "step")))
        return _line_of(self.adapter.stages.get(name))

    def stage(self, stage: Stage) -> "StageCall":
        """Return how a stage of the program is called. Raises TraceError CAD3410 and CAD3411."""
        function = self._function(stage)
        return StageCall(stage, function, *_call_shape(function, stage))

    def _function(self, stage: Stage) -> Callable[..., Any]:
        if not self.has_stages:
            step: Callable[..., Any] = self.adapter.step
            return step
        stages: Mapping[str, Callable[..., Any]] = self.adapter.stages
        if stage.name not in stages:
            raise TraceError(
                "CAD3410",
                f"the model has no stage `{stage.name}`",
                expected=f"a callable `stages[{stage.name!r}]`",
                got=", ".join(f"`{name}`" for name in stages) or "no stage",
                at=self.entry,
            )
        return stages[stage.name]


@dataclass(frozen=True, slots=True)
class StageCall:
    """A stage's function and how it takes its operands. `as_tuple`: all inputs arrive as one tuple. `keywords` are
    the args of the stage (and the name of its index) that the function takes by name."""

    stage: Stage
    function: Callable[..., Any]
    as_tuple: bool
    keywords: tuple[str, ...]

    def __call__(self, state: object, args: Mapping[str, int], inputs: Sequence[object]) -> tuple[object, object]:
        """Run the stage for real and return (state, outputs). A failure is a TraceError CAD3007."""
        operands = (tuple(inputs),) if self.as_tuple else tuple(inputs)
        named = {name: args[name] for name in self.keywords}
        with _blamed(self.stage.name):
            result = self.function(state, *operands, **named)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(
                "CAD3413",
                f"stage `{self.stage.name}` does not return its state and its outputs",
                expected="a tuple (state, outputs)",
                got=f"a tuple of {len(result)}" if isinstance(result, tuple) else f"`{type(result).__name__}`",
                at=_line_of(self.function),
            )
        return result


def _call_shape(function: Callable[..., Any], stage: Stage) -> tuple[bool, tuple[str, ...]]:
    """Return whether the inputs go as one tuple, and the stage's args that the function takes by name."""
    known = (*stage.args, *((stage.repeat[0],) if stage.repeat else ()))
    inputs = [item.name for item in stage.inputs]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False, ()
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    by_name = tuple(p.name for p in parameters[1:] if p.name in known and p.name not in inputs)
    positional = [
        p for p in parameters[1:] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in by_name
    ]
    needed = [p for p in positional if p.default is p.empty]
    if len(positional) == 1 and len(inputs) > 1 and not takes_any:
        return True, by_name
    if not parameters or len(needed) > len(inputs) or (len(positional) < len(inputs) and not takes_any):
        raise TraceError(
            "CAD3411",
            f"stage `{stage.name}` takes other arguments than its inputs",
            expected=f"`(state, {', '.join(inputs)})`" if inputs else "`(state)`",
            got=f"`({', '.join(p.name for p in parameters)})`",
            at=_line_of(function),
            hint="list the inputs of the stage in the order of the function, or take all of them as one tuple",
        )
    return False, by_name


def load_model(
    entry: str, options: Mapping[str, Option], base_folder: str | Path, device: torch.device = HOST
) -> Model:
    """Build the model that a spec's `entry` names: `package.module:function` or `file.py:function`, the file relative
    to `base_folder`. It is built on the host and moved to `device`, so that its initial values are the same there.
    Raises TraceError (CAD3401 to CAD3407, CAD3422) that names the cause and the line of the user's code."""
    place, _, name = entry.rpartition(":")
    with steady_random():
        module = import_entry(place, Path(base_folder), entry)
        function = _attribute(module, name, entry)
        check_options(function, options, entry)
        try:
            adapter = function(**options)
        except (Exception, SystemExit) as error:
            _let_ours_through(error)
            raise failure("CAD3406", f"`{entry}` failed", error) from error
    _check_protocol(adapter, entry)
    if device.type != "cpu":
        _move(adapter, device, entry)
    return Model(adapter, entry, device)


def _move(adapter: Any, device: torch.device, entry: str) -> None:
    """Move a model to a device. Raises TraceError CAD3422 for one that does not know how, and CAD3406 where it
    fails."""
    if not callable(getattr(adapter, "to", None)):
        raise TraceError(
            "CAD3422",
            f"the model of `{entry}` cannot be moved to a device",
            expected="a method `to(device)`, as every torch module has",
            got=f"`{type(adapter).__name__}` without `to`",
            hint="make the adapter a `torch.nn.Module` that holds the model, or give it `to`",
        )
    try:
        adapter.to(device)
    except Exception as error:
        _let_ours_through(error)
        raise failure("CAD3406", f"`{entry}` made a model that cannot be moved to `{device}`", error) from error


@contextmanager
def steady_random() -> Iterator[None]:
    """Seed every generator that a model may draw its initial values from, and put them back."""
    python, numpy = random.getstate(), sys.modules.get("numpy")
    kept = numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(_SEED)
        random.seed(_SEED)
        if numpy:
            numpy.random.seed(_SEED)
        try:
            yield
        finally:
            random.setstate(python)
            if numpy:
                numpy.random.set_state(kept)


def import_entry(place: str, base_folder: Path, entry: str) -> ModuleType:
    """Import the module, or run the file, that an entry names. Raises TraceError CAD3401 and CAD3402."""
    try:
        return _execute(base_folder / place, place) if place.endswith(".py") else importlib.import_module(place)
    except (FileNotFoundError, ModuleNotFoundError, IsADirectoryError) as error:
        missing = getattr(error, "name", None) or place
        if place == missing or place.startswith(f"{missing}.") or isinstance(error, IsADirectoryError):
            raise _no_module(place, entry) from None
        raise failure("CAD3402", f"`{place}` cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        _let_ours_through(error)
        raise failure("CAD3402", f"`{place}` cannot be imported", error) from error


def _execute(path: Path, place: str) -> ModuleType:
    """Run a file as a module of its own; files beside it can be imported, as for a script."""
    if not path.is_file():
        raise FileNotFoundError(place)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"cadencec_entry_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _no_module(place: str, entry: str) -> TraceError:
    is_file = place.endswith(".py")
    return TraceError(
        "CAD3401",
        f"the model's entry `{entry}` cannot be found",
        expected="a Python file, relative to the spec" if is_file else "a module that can be imported",
        got=f"no {'file' if is_file else 'module'} `{place}`",
        hint=None if is_file else f"install the package, or name a file: `./{place.rpartition('.')[2]}.py:build`",
    )


def _attribute(module: ModuleType, name: str, entry: str) -> Callable[..., Any]:
    if not hasattr(module, name):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        own = [key for key in public if getattr(vars(module)[key], "__module__", None) == module.__name__]
        raise TraceError(
            "CAD3403",
            f"`{entry}` names nothing",
            expected=f"a function `{name}` in the module",
            got=", ".join(f"`{key}`" for key in sorted(own)[:10]) or "no function",
        )
    function = getattr(module, name)
    if not callable(function) or isinstance(function, nn.Module):
        raise TraceError(
            "CAD3404",
            f"`{entry}` is not a function",
            expected="a function that builds the model anew each time",
            got=f"`{type(function).__name__}`",
            hint="wrap what makes it in a function `build`, and name that",
        )
    return function  # type: ignore[no-any-return]


def check_options(function: Callable[..., Any], options: Mapping[str, Option], entry: str) -> None:
    """Raise TraceError CAD3405 where a function does not take options by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**options)
    except TypeError as error:
        named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        missing = [p.name for p in named if p.default is p.empty and p.name not in options]
        raise TraceError(
            "CAD3405",
            f"`{entry}` does not take these options",
            expected=f"`{signature}`",
            got=", ".join(f"`{name}`" for name in options) or "no option",
            at=_line_of(function),
            hint="set " + ", ".join(f"`model.options.{name}`" for name in missing) if missing else str(error),
        ) from None


def _check_protocol(adapter: object, entry: str) -> None:
    missing = [] if callable(getattr(adapter, "init_state", None)) else ["init_state"]
    if getattr(adapter, "stages", None) is None and not callable(getattr(adapter, "step", None)):
        missing.append("step")
    if missing:
        raise TraceError(
            "CAD3407",
            f"`{entry}` returned no streaming model",
            expected="`init_state()`, and `step(state, ...)` or `stages`",
            got=f"`{type(adapter).__name__}` without " + " and ".join(f"`{name}`" for name in missing),
            hint="wrap the module in a class that passes its streaming state explicitly",
        )


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Turn a failure of the model's own code into a TraceError CAD3007 with its line; ours pass."""
    try:
        yield
    except Exception as error:
        _let_ours_through(error)
        raise hazards.raised(what, error, SourceLines().of_error(error)) from error


def _let_ours_through(error: BaseException) -> None:
    if isinstance(error, CadenceError):
        raise error


def failure(code: str, what: str, error: BaseException) -> TraceError:
    """Return the error for code of the user that raised, with what it raised and the line."""
    text, name = str(error).strip().partition("\n")[0], type(error).__name__
    at = SourceLines().of_error(error)
    if isinstance(error, SyntaxError) and error.filename:
        at = f"{Path(error.filename).name}:{error.lineno}"
    return TraceError(code, what, got=f"{name}: {text}" if text else name, at=at)


def _line_of(function: Any) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else None
