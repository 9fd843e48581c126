"""Dataclasses with methods that are made late behave like those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from types import ModuleType
from typing import Any

import pytest

from commonbrain.model import values

FROZEN = {"frozen": True, "slots": True, "kw_only": True}


def define(library: ModuleType, **options: bool) -> type[Any]:
    class Note:
        """A class with every sort of field."""

        text: str
        tags: list[str] = library.field(default_factory=list)
        score: float = 0.5
        secret: str = library.field(default="x", repr=False, compare=False)
        made: int = library.field(default=7, init=False)

        def __post_init__(self) -> None:
            if not self.text:
                raise ValueError("empty")

    return library.dataclass(**options)(Note)


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One at the top of a module, as `pickle` needs it."""

    name: str
    parts: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Named):
    """One of the standard library on top of it."""

    more: int = 0


@pytest.mark.parametrize("options", [FROZEN, {"frozen": True}, {"slots": True}, {"kw_only": True}])
def test_late_methods_give_what_the_standard_library_gives(options: dict[str, bool]) -> None:
    ours, theirs = (define(one, **options) for one in (values, dataclasses))
    calls: tuple[dict[str, Any], ...] = (
        {"text": "a"},
        {"text": "a", "tags": ["b"], "score": 1, "secret": "y"},
        {"text": ""},
        {},
        {"text": "a", "unknown": 1},
        {"text": "a", "made": 1},
    )
    for call in calls:
        made = [outcome(one, call) for one in (ours, theirs)]
        assert made[0] == made[1]


@pytest.mark.parametrize("options", [FROZEN, {"slots": True}])
def test_signature_is_shown_before_a_method_was_made(options: dict[str, bool]) -> None:
    ours, theirs = (inspect.signature(define(one, **options)) for one in (values, dataclasses))

    assert [(one.name, one.kind, one.annotation) for one in ours.parameters.values()] == [
        (one.name, one.kind, one.annotation) for one in theirs.parameters.values()
    ]
    assert list(inspect.signature(Derived).parameters) == ["name", "parts", "more"]


def test_object_that_can_be_called_has_the_signature_of_its_call() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Adder:
        base: int

        def __call__(self, more: int) -> int:
            return self.base + more

    assert list(inspect.signature(Adder(1)).parameters) == ["more"]


def test_method_put_around_a_late_one_stays() -> None:
    cls, seen = define(values, slots=True), list[dict[str, object]]()
    late: Any = cls.__init__

    def counted(self: object, **named: object) -> None:
        seen.append(named)
        late(self, **named)

    setattr(cls, "__init__", counted)  # noqa: B010 a type checker would refuse it
    for text in ("a", "b"):
        assert cls(text=text).text == text
    assert len(seen) == 2


def test_methods_that_a_class_defines_are_not_replaced() -> None:
    @values.dataclass(slots=True)
    class Same:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(self) -> int:
            return 1

    assert (Same("a") == Same("b"), hash(Same("a"))) == (True, 1)


def outcome(cls: type[Any], call: dict[str, Any]) -> object:
    try:
        one = cls(**call)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    changed = dataclasses.replace(one, text="z")
    return repr(one), one == cls(**call), one == changed, dataclasses.asdict(changed)


def test_values_are_equal_and_hash_by_their_compared_fields() -> None:
    one, same, other = Named(name="a"), Named(name="a"), Named(name="a", parts=("b",))

    assert (one == same, one == other, one == "a") == (True, False, False)
    assert {one, same, other} == {one, other}
    with pytest.raises(TypeError, match="unhashable"):
        hash(define(values, slots=True)(text="a"))


def test_frozen_values_refuse_changes_and_are_copied_and_pickled() -> None:
    one = Named(name="a", parts=("b",))

    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        one.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        del one.name  # type: ignore[misc]
    assert one == copy.copy(one) == copy.deepcopy(one)
    assert one == pickle.loads(pickle.dumps(one))  # noqa: S301 it was made here


def test_class_of_the_standard_library_derives_from_one_with_late_methods() -> None:
    derived = Derived(name="a", more=1)

    assert (derived.name, derived.more, derived.parts) == ("a", 1, ())
    assert repr(derived) == "Derived(name='a', parts=(), more=1)"
