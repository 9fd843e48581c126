"""What an edit touches, and which texts name it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.code_names import Naming, naming_of, patched_files, read_edit

FILE = "/home/ann/shop/src/payments/refunds.py"
FOLDER = "/home/ann/shop"


def naming(text: str, *, file: str = FILE, edit: str = "") -> Naming | None:
    return naming_of(read_edit((file,), edit, folder=FOLDER), text)


def test_text_names_a_file_by_the_end_of_its_path(subtests: pytest.Subtests) -> None:
    for text in [
        "src/payments/refunds.py must stay free of network calls.",
        "We moved the retry into `payments/refunds.py`.",
        "See ./src/payments/refunds.py:42 for the limit.",
        "The bug was in refunds.py, not in the gateway.",
        "On my machine it is /home/bob/shop/src/payments/refunds.py.",
        "(refunds.py) was rewritten",
        "refunds.py#partial-refunds explains why.",
        "See payments/refunds.py?plain=1#L4 for the rule.",
        "src\\payments\\refunds.py never calls the gateway.",
        "It is C:\\work\\shop\\src\\payments\\refunds.py on the other machine.",
        "https://example.com/shop/blob/main/src/payments/refunds.py#L10 has the rule",
    ]:
        with subtests.test(text=text):
            assert naming(text) is Naming.FILE


def test_similar_words_name_no_file(subtests: pytest.Subtests) -> None:
    for text in [
        "Refunds are paid within two days.",
        "refunds.ts is the frontend's.",
        "The service orders/refunds.py is another one.",
        "old_refunds.py was deleted.",
        "It refunds.",
        "Our payments team is in Lisbon.",
        "Choose refunds/payments as the name.",
    ]:
        with subtests.test(text=text):
            assert naming(text) is None


def test_common_file_name_counts_only_with_its_folder(
    subtests: pytest.Subtests,
) -> None:
    for name in ["index.ts", "utils.py", "main.go", "__init__.py", "README.md"]:
        with subtests.test(name=name):
            file = f"{FOLDER}/web/checkout/{name}"

            assert naming(f"{name} is generated.", file=file) is None
            assert (
                naming(f"main of {name.split('.', maxsplit=1)[0]} is generated.", file=file) is None
            )
            assert naming(f"checkout/{name} is generated.", file=file) is Naming.FILE


def test_folder_is_named_only_as_a_path_with_a_slash(subtests: pytest.Subtests) -> None:
    for text, named in [
        ("Nothing in src/payments/ may log a card.", Naming.FOLDER),
        ("Nothing in payments/ may log a card.", Naming.FOLDER),
        ("Nothing in src/payments may log a card.", Naming.FOLDER),
        ("Nothing in src\\payments\\ may log a card.", Naming.FOLDER),
        ("A line ends with \\n, and a card with \\payments.", None),
        ("Nothing in src/ may log a card.", None),
        ("Nothing in src/orders/ may log a card.", None),
    ]:
        with subtests.test(text=text, named=named):
            assert naming(text) is named


def test_symbol_is_named_only_in_its_code_spelling(subtests: pytest.Subtests) -> None:
    for edit, text, named in [
        ("    def close_pool(self):", "close_pool must run last.", Naming.SYMBOL),
        ("export async function makeRefund(o) {", "makeRefund rounds down.", Naming.SYMBOL),
        ("+const makeRefund = (order) => 1", "makeRefund rounds down.", Naming.SYMBOL),
        ("func (s *Store) Refund(id int) {", "`Refund` rounds down.", Naming.SYMBOL),
        ("TRUST_MIN: Final = 0.4", "TRUST_MIN is a policy.", Naming.SYMBOL),
        ("@@ class Ledger:\n-x\n+y", "`Ledger` is never changed.", Naming.SYMBOL),
        ("class LedgerEntry:", "A LedgerEntry is never changed.", Naming.SYMBOL),
        ("select * from card_events", "card_events has no index.", None),
        ("def settle(order):", "`settle` is not idempotent.", None),
        ("class Ledger:", "A `Ledger` is never changed.", Naming.SYMBOL),
        ("def settle(order):", "settle() is not idempotent.", Naming.SYMBOL),
        ("def settle(order):", "We settle bills monthly.", None),
        ("settle(order)", "`settle` is not idempotent.", None),
        ("def settle(order):", "See `bank.settle()` for the order.", Naming.SYMBOL),
        ("def settle(order):", "Run `settle bills` monthly.", None),
        ("x = close_pool(self)", "close_pool must run last.", None),
        ("raise InvalidInputError(x)", "An InvalidInputError is the caller's.", None),
        ("def main(args):", "main() parses the arguments.", None),
        ("def close_pools():", "close_pool must run last.", None),
        ("# the type settle has", "`settle` is not idempotent.", None),
    ]:
        with subtests.test(edit=edit, text=text, named=named):
            assert naming(text, edit=edit) is named


def test_memory_that_names_the_edited_file_is_recognized(subtests: pytest.Subtests) -> None:
    for text, file, edit in [
        ("Values in .env are never quoted, docker reads them raw.", ".env", ""),
        ("`.env` holds the sandbox key only.", "services/api/.env", ""),
        ("The Jenkinsfile must keep the nightly stage last.", "Jenkinsfile", ""),
        ("Our Makefile is POSIX, no GNU extensions.", "Makefile", ""),
        ("Pin the base image in the Dockerfile by digest.", "deploy/Dockerfile", ""),
        (
            ".github/workflows/ci.yml runs the slow tests at night only.",
            ".github/workflows/ci.yml",
            "",
        ),
        (
            "Actions in `.github/workflows/` are pinned to a hash.",
            ".github/workflows/release.yml",
            "",
        ),
        ("CODEOWNERS lists teams, never people.", ".github/CODEOWNERS", ""),
        (".gitignore must not hide fixtures.", ".gitignore", ""),
        ("Dockerfile.dev mounts the sources.", "Dockerfile.dev", ""),
        ("The justfile is the only entry point of CI.", "justfile", ""),
        (
            "billing/invoices/__init__.py exports the public names.",
            "src/billing/invoices/__init__.py",
            "",
        ),
        ("render_invoice rounds half to even.", "src/pdf.py", "def render_invoice(x):\n    pass\n"),
        ("`LedgerRow` is append-only.", "src/rows.ts", "export class LedgerRow {\n"),
        ("MAX_RETRIES is 4 because the bank blocks at 5.", "src/bank.py", "MAX_RETRIES = 4\n"),
        ("docker-compose.yml starts Redis before the worker.", "docker-compose.yml", ""),
        ("Nothing in src/billing/ may call the mailer.", "src/billing/totals.py", ""),
        ("See web/checkout/index.ts for the order of events.", "web/checkout/index.ts", ""),
        ("The outage came from gateway_pool.go, which never closed.", "net/gateway_pool.go", ""),
        ("The Procfile's worker line needs two dynos.", "Procfile", ""),
        ("Keys in .env.example are sorted.", ".env.example", ""),
        ("The Gemfile pins rails to 7.1 until the asset bug is fixed.", "Gemfile", ""),
        ("Our dockerfile builds in two stages.", "api/Dockerfile", ""),
        ("The `Makefile` target lint is run by CI.", "tools/Makefile", ""),
        ("ci.yml must not use secrets on forks.", ".github/workflows/ci.yml", ""),
        (
            "Never edit .github/workflows by hand; templates generate it.",
            ".github/workflows/x.yml",
            "",
        ),
        ("app/models may not call HTTP.", "app/models/order.rb", ""),
        ("packages/pay-core/ has no dependencies.", "packages/pay-core/a.ts", ""),
    ]:
        with subtests.test(text=text, file=file, edit=edit):
            assert naming(text, file=f"{FOLDER}/{file}", edit=edit) is not None


def test_words_of_a_sentence_name_no_code(subtests: pytest.Subtests) -> None:
    for text, file, edit in [
        ("The client/server protocol is versioned.", "src/client/server/boot.py", ""),
        ("Use and/or in sentences sparingly.", "src/and/or/gate.py", ""),
        ("Support answers 24/7 on the phone.", "data/24/7/rows.csv", ""),
        ("TCP/IP settings are in the wiki.", "net/TCP/IP/stack.c", ""),
        ("The read/write ratio is 9 to 1.", "store/read/write/io.py", ""),
        ("Fill in n/a where a value is missing.", "forms/n/a/x.py", ""),
        ("status() is polled every second.", "web/list.ts", "const status = await load()\n"),
        ("`Status` is shown in green.", "web/list.ts", "let Status = 1\n"),
        ("data() returns rows of the day.", "web/list.ts", "const data = 1\n"),
        ("main() parses the arguments.", "cmd/run.go", "func main() {\n"),
        ("index.ts re-exports everything.", "web/cart/index.ts", ""),
        ("utils.py has grown too large.", "src/shop/utils.py", ""),
        ("__init__.py stays empty.", "src/shop/__init__.py", ""),
        ("The environment is set by the operator.", ".env", ""),
        ("We read process.env at start.", "config/.env", ""),
        ("services/api/Dockerfile uses Alpine.", "services/web/Dockerfile", ""),
        ("Ann makes files of the minutes.", "Makefile", ""),
        ("The profile page loads in two seconds.", "bin/profile", ""),
        ("ci is slow on Mondays.", ".github/workflows/ci.yml", ""),
        ("total() is wrong for refunds.", "web/cart.ts", "  const total = items.reduce(add)\n"),
        ("Choose push/pull by latency.", "mq/push/pull/x.go", ""),
        ("His/her name comes first.", "x/his/her.txt", ""),
        ("We pay on 1/2 of each month.", "a/1/2/b.csv", ""),
        ("I/O errors are retried.", "sys/I/O/port.c", ""),
        ("config.yaml is loaded at start.", "svc/config.yaml", ""),
        ("`Config` is immutable.", "c.py", "class Config:"),
        ("render() is slow.", "r.jsx", "function render() {"),
        ("A Node.js upgrade is due.", "web/node.ts", ""),
        ("The environment variable PATH is set by docker.", "Dockerfile", ""),
        ("items() returns a copy.", "m.py", "items = []"),
        ("The license of the map data expires in May.", "LICENSE", ""),
        ("e.g. the version, i.e. the tag", "a/version.py", ""),
    ]:
        with subtests.test(text=text, file=file, edit=edit):
            assert naming(text, file=f"{FOLDER}/{file}", edit=edit) is None


def test_files_of_a_patch_are_extracted() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@\n-x\n+y\n"
        "*** Add File: docs/new.md\n+text\n*** End Patch\n"
    )

    assert patched_files(patch) == ("src/a.py", "src/b.py", "docs/new.md")


PART = st.text("abcdefghij", min_size=3, max_size=8)


@given(parts=st.lists(PART, min_size=2, max_size=5), before=st.text(max_size=30))
def test_last_two_parts_of_a_path_name_every_file(parts: list[str], before: str) -> None:
    path = "/".join(parts) + ".py"
    short = "/".join(path.split("/")[-2:])

    assert naming_of(read_edit((path,), ""), f"{before} {short} has it") is Naming.FILE


@given(text=st.text(max_size=300), edit=st.text(max_size=300), file=st.text(max_size=60))
def test_arbitrary_text_can_be_read(text: str, edit: str, file: str) -> None:
    naming_of(read_edit((file,), edit), text)
