"""`dataclasses`, with a `dataclass` that makes the methods of a class when they are first called.

Making them takes nine tenths of the time in which a class is defined. A command defines some 250
classes and calls one in fourteen of their methods, so the modules that commands load use this one.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from dataclasses import dataclass as define
from functools import cache, partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
    from inspect import Signature
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[type], type]:
        """Decorate a class as the standard library does; it knows no `InitVar`."""
        options = {"slots": slots, "kw_only": kw_only}

        def decorate(given: type) -> type:
            if any(map(is_dataclass, given.__mro__[1:])) or _OWN.intersection(given.__dict__):
                return define(given, frozen=frozen, eq=eq, **options)
            # The library would spend longer on a signature than on the rest.
            given.__doc__ = given.__doc__ or given.__name__
            made = define(given, init=False, repr=False, eq=False, **options)
            made.__dataclass_params__.frozen = frozen
            _add_methods(made, is_frozen=frozen, has_eq=eq)
            return made

        return decorate


__all__ = ["asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

_OWN: Final = frozenset({"__init__", "__eq__", "__hash__", "__repr__"})
"""A class that has one of these is left to the standard library."""
_set: Final = object.__setattr__


def _add_methods(made: Any, *, is_frozen: bool, has_eq: bool) -> None:  # noqa: ANN401 a class
    _defer(made, "__init__", write=partial(_write_init, is_frozen=is_frozen))
    made.__signature__ = _Signature()
    if has_eq:
        _defer(made, "__eq__", write=_write_eq)
        made.__hash__ = None
    if has_eq and is_frozen:
        _defer(made, "__hash__", write=_write_hash)
    if made.__repr__ is object.__repr__:
        made.__repr__ = _repr
    if is_frozen:
        made.__setattr__ = made.__delattr__ = _refuse
        made.__getstate__, made.__setstate__ = _state, _restore


def _defer(made: Any, name: str, *, write: Callable[[Any], str]) -> None:  # noqa: ANN401 as above
    """Compile a method when it is first called."""

    @cache
    def compiled() -> Any:  # noqa: ANN401 a method
        names: dict[str, Any] = {f"_make_{one.name}": one.default_factory for one in fields(made)}
        names |= {"__name__": made.__module__, "_fields": made.__dataclass_fields__}
        names |= {"_set": _set, "_missing": MISSING}
        exec(f"def {name}{write(made)}", names)  # noqa: S102 it consists of names of fields
        own = names[name]
        own.__qualname__ = f"{made.__qualname__}.{name}"
        own.__annotations__ = {one.name: one.type for one in fields(made) if one.init}
        # A method that was put around this one stays.
        if made.__dict__.get(name) is method:
            setattr(made, name, own)
        return own

    def method(self: object, *args: object, **named: object) -> object:
        return compiled()(self, *args, **named)

    vars(method)["compiled"] = compiled
    setattr(made, name, method)


class _Signature:
    """What `help` shows of a class: the parameters of a method that may not be compiled yet."""

    def __get__(self, one: object, owner: Any) -> Signature:  # noqa: ANN401 a class
        if one is not None:
            # Of an object that can be called, what it takes is asked for.
            raise AttributeError
        from inspect import signature  # noqa: PLC0415 programs seldom ask

        compiled = getattr(owner.__init__, "compiled", None)
        shown = signature(compiled() if compiled else owner.__init__)
        return shown.replace(parameters=[*shown.parameters.values()][1:])


def _write_init(made: Any, *, is_frozen: bool) -> str:  # noqa: ANN401 as above
    by_position, by_name, body = ["self"], ["*"], [""]
    for one in fields(made):
        name = value = one.name
        default = ""
        if one.default_factory is not MISSING:
            default, made_here = "=_missing", f"_make_{name}()"
            value = f"{made_here} if {name} is _missing else {name}" if one.init else made_here
        elif one.default is not MISSING:
            default = f"=_fields[{name!r}].default"
            value = name if one.init else default[1:]
        if one.init:
            (by_name if one.kw_only else by_position).append(name + default)
        if one.init or default:
            body.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    body.append("self.__post_init__()" if hasattr(made, "__post_init__") else "pass")
    return f"({', '.join(by_position + by_name[len(by_name) == 1 :])}):" + "\n ".join(body)


def _write_eq(made: Any) -> str:  # noqa: ANN401 as above
    same = f"{_compared(made, 'self')} == {_compared(made, 'other')}"
    return f"(self, other):\n return {same} if type(other) is type(self) else NotImplemented"


def _write_hash(made: Any) -> str:  # noqa: ANN401 as above
    return f"(self):\n return hash({_compared(made, 'self')})"


def _compared(made: Any, name: str) -> str:  # noqa: ANN401 as above
    return f"({''.join(f'{name}.{one.name},' for one in fields(made) if one.compare)})"


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401 a dataclass
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse(_self: object, name: str, *_value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[object]:  # noqa: ANN401 as above
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[object]) -> None:  # noqa: ANN401 as above
    for one, value in zip(fields(self), state, strict=True):
        _set(self, one.name, value)
