import gc
import importlib
import pkgutil
import re

import commonbrain
from commonbrain.text.patterns import lazy_pattern


def test_lazy_pattern_is_compiled_by_its_first_use() -> None:
    lazy = lazy_pattern(r"(?P<day>\d+)\w*", re.IGNORECASE)
    assert lazy.pattern == r"(?P<day>\d+)\w*"
    assert "search" not in vars(lazy)
    match = lazy.search("on the 3RD")
    assert match is not None
    assert match["day"] == "3"
    assert (lazy.groups, lazy.flags & re.IGNORECASE) == (1, re.IGNORECASE)
    assert lazy.sub("x", "1st 2nd") == "x x"
    assert vars(lazy)["search"].__self__ is re.compile(r"(?P<day>\d+)\w*", re.IGNORECASE)


def test_every_pattern_of_the_rules_can_be_compiled() -> None:
    for module in pkgutil.walk_packages(commonbrain.__path__, "commonbrain."):
        if module.name.split(".")[1] in {"text", "retrieval", "ingestion", "security"}:
            importlib.import_module(module.name)
    kind: type[object] = type(lazy_pattern(""))
    # What was there when all tests were collected is frozen, and not listed.
    gc.unfreeze()
    patterns: list[re.Pattern[str]] = [one for one in gc.get_objects() if type(one) is kind]
    gc.freeze()
    assert len(patterns) > 200
    for one in patterns:
        assert one.groups >= 0, one.pattern
