"""What an edit touches, and which texts name it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.code_names import Naming, naming_of, patched_files, read_edit

FILE = "/home/ann/shop/src/payments/refunds.py"
FOLDER = "/home/ann/shop"


def naming(text: str, *, file: str = FILE, edit: str = "") -> Naming | None:
    return naming_of(read_edit((file,), edit, folder=FOLDER), text)


@pytest.mark.parametrize(
    "text",
    [
        "src/payments/refunds.py must stay free of network calls.",
        "We moved the retry into `payments/refunds.py`.",
        "See ./src/payments/refunds.py:42 for the limit.",
        "The bug was in refunds.py, not in the gateway.",
        "On my machine it is /home/bob/shop/src/payments/refunds.py.",
        "(refunds.py) was rewritten",
        "https://example.com/shop/blob/main/src/payments/refunds.py#L10 has the rule",
    ],
)
def test_a_text_names_a_file_by_the_end_of_its_path(text: str) -> None:
    assert naming(text) is Naming.FILE


@pytest.mark.parametrize(
    "text",
    [
        "Refunds are paid within two days.",
        "refunds.ts is the frontend's.",
        "The service orders/refunds.py is another one.",
        "old_refunds.py was deleted.",
        "It refunds.",
        "Our payments team is in Lisbon.",
        "Choose refunds/payments as the name.",
    ],
)
def test_a_text_about_something_like_it_does_not(text: str) -> None:
    assert naming(text) is None


@pytest.mark.parametrize("name", ["index.ts", "utils.py", "main.go", "__init__.py", "README.md"])
def test_a_name_that_many_folders_have_counts_only_with_its_folder(name: str) -> None:
    file = f"{FOLDER}/web/checkout/{name}"

    assert naming(f"{name} is generated.", file=file) is None
    assert naming(f"main of {name.split('.', maxsplit=1)[0]} is generated.", file=file) is None
    assert naming(f"checkout/{name} is generated.", file=file) is Naming.FILE


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Nothing in src/payments/ may log a card.", Naming.FOLDER),
        ("Nothing in payments/ may log a card.", Naming.FOLDER),
        ("Nothing in src/payments may log a card.", Naming.FOLDER),
        ("Nothing in src/ may log a card.", None),
        ("Nothing in src/orders/ may log a card.", None),
    ],
)
def test_a_folder_counts_with_its_slash(text: str, named: Naming | None) -> None:
    assert naming(text) is named


@pytest.mark.parametrize(
    ("edit", "text", "named"),
    [
        ("    def close_pool(self):", "close_pool must run last.", Naming.SYMBOL),
        ("export async function makeRefund(o) {", "makeRefund rounds down.", Naming.SYMBOL),
        ("+const makeRefund = (order) => 1", "makeRefund rounds down.", Naming.SYMBOL),
        ("func (s *Store) Refund(id int) {", "`Refund` rounds down.", Naming.SYMBOL),
        ("TRUST_MIN: Final = 0.4", "TRUST_MIN is a policy.", Naming.SYMBOL),
        ("@@ class Ledger:\n-x\n+y", "`Ledger` is never changed.", Naming.SYMBOL),
        ("class LedgerEntry:", "A LedgerEntry is never changed.", Naming.SYMBOL),
        ("def settle(order):", "`settle` is not idempotent.", None),
        ("class Ledger:", "A `Ledger` is never changed.", Naming.SYMBOL),
        ("def settle(order):", "settle() is not idempotent.", Naming.SYMBOL),
        ("def settle(order):", "We settle bills monthly.", None),
        ("settle(order)", "`settle` is not idempotent.", None),
        ("def settle(order):", "See `bank.settle()` for the order.", Naming.SYMBOL),
        ("def settle(order):", "Run `settle bills` monthly.", None),
        ("x = close_pool(self)", "close_pool must run last.", None),
        ("raise InvalidInputError(x)", "An InvalidInputError is the caller's.", None),
        ("class GitHub:", "GitHub was down.", None),
        ("def main(args):", "main() parses the arguments.", None),
        ("def close_pools():", "close_pool must run last.", None),
        ("# the type settle has", "`settle` is not idempotent.", None),
    ],
)
def test_a_symbol_counts_in_the_spelling_of_code(
    edit: str, text: str, named: Naming | None
) -> None:
    assert naming(text, edit=edit) is named


def test_a_patch_names_its_files() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-x\n+y\n"
        "*** Add File: docs/new.md\n+text\n*** End Patch\n"
    )

    assert patched_files(patch) == ("src/a.py", "src/b.py", "docs/new.md")


PART = st.text("abcdefghij", min_size=3, max_size=8)


@given(parts=st.lists(PART, min_size=2, max_size=5), before=st.text(max_size=30))
def test_every_file_is_named_by_the_last_two_parts_of_its_path(
    parts: list[str], before: str
) -> None:
    path = "/".join(parts) + ".py"
    short = "/".join(path.split("/")[-2:])

    assert naming_of(read_edit((path,), ""), f"{before} {short} has it") is Naming.FILE


@given(text=st.text(max_size=300), edit=st.text(max_size=300), file=st.text(max_size=60))
def test_any_text_is_read(text: str, edit: str, file: str) -> None:
    naming_of(read_edit((file,), edit), text)
