"""Hooks whose memory is on a server: what they show and store, and that they never fail."""

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import httpx2
import pytest
from commonbrain_server.http.hooks import FixFields, StatementFields
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import Implementation
from pydantic import BaseModel

from commonbrain.client import Brain
from commonbrain.hooks.remote import NEEDS
from commonbrain.hooks.table import HOOKS
from commonbrain.ingestion.failures import FixedFailure
from commonbrain.model.scope import Authority
from commonbrain.text.capture import select_captured
from commonbrain.text.code_names import read_edit
from commonbrain.text.user_statements import UserStatement
from tests.hooking import PATIENT, Answered
from tests.hooks.test_hook_failures import COMMAND, FILE, OUTPUT
from tests.hooks.test_user_statements import ATTENDED
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment
from tests.serving import free_port

HEAVY = ("numpy", "onnxruntime", "pydantic", "sqlalchemy", "mcp", "typer", "httpx2", "asyncio")
RULE = "Never push to release without a green build."
FACT = "src/payments/refunds.py rounds down, as the bank does."
PROMPT = "why does refunds.py round down?"
UNSENT = "kept-on-this-machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of a client on another machine than the memory."""

    url: str
    state: Path
    session: str = "s-remote"
    key: str = "key-of-ann"

    def call(self, event: str, *words: str, client: str = "claude-code", **fields: Any) -> Answered:  # noqa: ANN401
        environment = {
            **PATIENT,
            "COMMONBRAIN_STATE": str(self.state),
            # Only the server is answered: a store of this machine cannot be opened.
            "COMMONBRAIN_STORE": "/dev/null/brain.db",
            "COMMONBRAIN_KEY": self.key,
            **{name: fields.pop(name) for name in list(fields) if name.isupper()},
        }
        sent = {"session_id": self.session, "cwd": str(self.state.parent), **fields}
        done = run_brain(
            "hook", client, event, "--url", self.url, *words, stdin=json.dumps(sent), **environment
        )
        return Answered(status=done.status, out=done.out, err=done.err)


@pytest.fixture
def hooks(url: str, tmp_path: Path) -> Hooks:
    return Hooks(url=url, state=tmp_path / "state")


@pytest.mark.requirement("CL-13")
def test_hooks_of_a_session_boot_recall_and_capture_on_a_server(
    hooks: Hooks, shared: tuple[Brain, str], tmp_path: Path
) -> None:
    brain, _ = shared
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    folder = str(tmp_path / "shop" / "src")
    brain.remember(RULE, kind="rule", severity="BLOCKER")
    brain.remember(FACT, kind="fact")

    started = hooks.call("session-start", cwd=folder, source="startup")
    answered = hooks.call("user-prompt-submit", cwd=folder, prompt=PROMPT)
    again = hooks.call("user-prompt-submit", cwd=folder, prompt=PROMPT)
    stopped = hooks.call(
        "stop", cwd=folder, prompt_id="p1", transcript_path=f"{folder}/t.jsonl",
        last_assistant_message="The root cause was a pool that was closed twice.\n\nBye.",
    )  # fmt: skip

    assert RULE in started.context
    assert f"> {FACT}" in answered.context
    assert (again.out, again.err) == ("", "")
    assert (stopped.out, stopped.err) == ("", "")
    [captured] = brain.recall("", kinds=["event"], trust_min=0).items
    assert captured.body == "The root cause was a pool that was closed twice."
    memory = brain.get(captured.id)
    assert (memory.agent, memory.session, memory.project) == ("ann", hooks.session, "shop")
    assert memory.source_ref == f"{hooks.session}#p1"
    # As of any hook: below what a model chose to store.
    assert memory.authority is Authority.CAPTURED


def test_end_of_a_session_ends_it_on_the_server(hooks: Hooks, shared: tuple[Brain, str]) -> None:
    brain, _ = shared
    hooks.call("session-start", source="startup")
    hooks.call("stop", last_assistant_message="The root cause was a pool that was closed twice.")
    assert hooks.session in {one.session for one in brain.session.list().sessions or ()}
    ended = hooks.call("session-end", "--detached", reason="exit")
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    assert hooks.session not in {one.session for one in brain.session.list().sessions or ()}
    [handoff] = brain.recall("", kinds=["episode"], trust_min=0).items
    assert "closed twice" in str(handoff.body)


def test_edit_is_searched_once_a_session_by_its_names(
    hooks: Hooks, shared: tuple[Brain, str]
) -> None:
    brain, _ = shared
    brain.remember("settle() is not idempotent", kind="fact")
    edit = {"file_path": f"{hooks.state.parent}/a.py", "new_string": "def settle(order):\n    pass"}
    assert "settle() is not" in hooks.call("file-edited", tool_input=edit).context
    assert hooks.call("file-edited", tool_input=edit).out == ""


def test_subagent_is_shown_a_memory_once_on_a_server(
    hooks: Hooks, shared: tuple[Brain, str]
) -> None:
    brain, _ = shared
    brain.remember("`make deploy` failed in June: the token had expired.", kind="incident")
    brain.remember("settle() and refund() are not idempotent", kind="fact")

    def runs(subagent: str, command: str = "make deploy") -> str:
        given = {"command": command}
        return hooks.call("pre-tool-use", tool_input=given, agent_id=subagent).context

    def edits(subagent: str, name: str) -> str:
        given = {
            "file_path": str(hooks.state.parent / f"{name}.py"),
            "new_string": f"def {name}():",
        }
        return hooks.call("pre-tool-use", tool_input=given, agent_id=subagent).context

    assert "the token had expired" in runs("")
    assert "the token had expired" in runs("a1")
    assert runs("a1", "make deploy DRY=1") == ""
    assert "the token had expired" in runs("a2")
    assert "idempotent" in edits("a1", "settle")
    assert edits("a1", "refund") == ""
    assert "idempotent" in edits("a2", "refund")


def failed(hooks: Hooks, **more: Any) -> Answered:  # noqa: ANN401 fields of any sort
    given = {"command": COMMAND}
    return hooks.call(
        "post-tool-use-failure", tool_input=given, error=f"Exit code 1\n{OUTPUT}", **more
    )


def fixed(hooks: Hooks) -> None:
    edit = {
        "file_path": f"{hooks.state.parent}/{FILE}",
        "old_string": "a = 1",
        "new_string": "a = 2",
    }
    hooks.call("post-tool-use", tool_name="Edit", tool_input=edit)
    hooks.call("post-tool-use", tool_input={"command": COMMAND}, tool_response={"stdout": "ok"})


def test_fix_of_one_agent_is_shown_to_others_once_it_helped(
    hooks: Hooks, shared: tuple[Brain, str]
) -> None:
    brain, _ = shared
    (hooks.state.parent / ".git").mkdir()
    bens = replace(hooks, key="key-of-ben", session="s-ben")
    failed(hooks)
    fixed(hooks)

    assert failed(bens).out == ""
    again = replace(hooks, session="s-again")
    assert FILE in failed(again).context
    fixed(again)
    assert FILE in failed(replace(bens, session="s-later")).context
    [incident] = brain.recall("", kinds=["incident"]).items
    assert brain.get(incident.id).authority is Authority.MODEL


@pytest.mark.parametrize(
    ("key", "variables", "authority"),
    [
        ("key-of-ann", ATTENDED, Authority.CAPTURED),
        ("key-of-ada", ATTENDED, Authority.PERSON),
        ("key-of-ada", {}, Authority.CAPTURED),
        ("key-of-ada", ATTENDED | {"COMMONBRAIN_CAPTURE": "propose"}, Authority.CAPTURED),
    ],
)
def test_words_of_a_user_are_a_persons_only_with_a_key_of_a_person(
    key: str,
    variables: dict[str, str],
    authority: Authority,
    hooks: Hooks,
    shared: tuple[Brain, str],
) -> None:
    brain, _ = shared
    prompt = "From now on use pnpm instead of npm"
    answered = replace(hooks, key=key).call(
        "user-prompt-submit", "--detached", prompt=prompt, **variables
    )

    assert (answered.status, answered.out, answered.err) == (0, "", "")
    active = [one.id for one in brain.list(limit=10).memories]
    waiting = [one.memory.id for one in brain.review("proposals").proposals]
    assert bool(waiting) is (authority is Authority.CAPTURED)
    [stored] = active + waiting
    assert brain.get(stored).authority is authority


FIX = {"command": "make", "excerpt": "E   ValueError: bad", "files": ["a.py"]}
SAID = {"text": "use pnpm instead of npm", "kind": "rule"}


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("post-tool-use", {"failed": "x" * 5000}),
        ("post-tool-use", {"fixed": [FIX] * 20}),
        ("post-tool-use", {"fixed": [FIX | {"files": []}]}),
        ("post-tool-use", {"fixed": [FIX | {"files": ["a.py"] * 1000}]}),
        ("post-tool-use", {"fixed": [FIX | {"lines": ["y" * 5000]}]}),
        ("post-tool-use", {"fixed": [FIX | {"excerpt": ""}]}),
        ("post-tool-use", {"fixed": [FIX], "helped": ["mem_1"] * 50}),
        ("user-prompt-submit", {"statements": [SAID] * 20}),
        ("user-prompt-submit", {"statements": [SAID | {"text": "z" * 5000}]}),
        ("user-prompt-submit", {"statements": [SAID | {"kind": "skill"}]}),
        ("user-prompt-submit", {"statements": [SAID | {"authority": "person"}]}),
    ],
)
def test_server_refuses_fields_that_no_client_sends(
    event: str, fields: dict[str, Any], shared: tuple[Brain, str]
) -> None:
    brain, url = shared
    body = {"client": "claude-code", "event": event, "fields": fields}
    headers = {"Authorization": "Bearer key-of-ann"}
    answered = httpx2.post(f"{url}/v1/hook", json=body, headers=headers)

    assert answered.status_code in {400, 422}
    assert brain.list(limit=10).memories == ()
    assert brain.review("proposals").proposals == ()


@dataclass
class Answers:
    """What a foreign or slow server answers, and what it was sent."""

    status: int = 200
    body: bytes = b'{"text": null}'
    headers: dict[str, str] = field(default_factory=dict[str, str])
    requests: list[tuple[dict[str, str], Any]] = field(default_factory=list[Any])


@contextmanager
def answering(answers: Answers, *, certificate: Path | None = None) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answers.requests.append((dict(self.headers), json.loads(body)))
            self.send_response(answers.status)
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answers.body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 of the base

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            scheme = "https" if certificate else "http"
            yield f"{scheme}://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_server_is_sent_only_what_the_action_needs(tmp_path: Path) -> None:
    answers = Answers()
    edit = {
        "file_path": f"{tmp_path}/src/bank.py",
        "new_string": f"def settle(order):\n    key = '{UNSENT}'\n",
    }
    with answering(answers) as url:
        hooks = Hooks(url=url, state=tmp_path / "state")
        common = {"transcript_path": "/home/ann/t.jsonl", "tool_response": "x" * 9_000_000}
        hooks.call("session-start", source="startup", transcript_path="/home/ann/t.jsonl")
        hooks.call("user-prompt-submit", prompt=PROMPT, transcript_path="/home/ann/t.jsonl")
        hooks.call("file-edited", tool_input=edit, transcript_path="/home/ann/t.jsonl")
        line = (
            f"git commit -m {UNSENT} && mysql -p{UNSENT} -u root && sh /home/ann/{UNSENT}/ship.sh"
            f" && bash a/../../{UNSENT}/go.sh"
        )
        hooks.call("before-commit", tool_input={"command": line})
        hooks.call(
            "stop",
            last_assistant_message=f"{UNSENT}\n\nThe root cause was a pool that was closed twice.",
        )
        hooks.call("user-prompt-submit", prompt="yes, please")
        private = f"<private>{UNSENT}</private> From now on use npm ci. Fix {UNSENT}, please."
        hooks.call("user-prompt-submit", "--detached", prompt=private, client="codex")
        secret = f"Remember that the key of {UNSENT} is ghp_TramMango81xTramMango81xTramMango81x"
        hooks.call("user-prompt-submit", "--detached", prompt=secret, client="codex")
        failed(hooks)
        fixed(hooks)
        assert hooks.call("file-edited", tool_input=edit, **common).status == 0

    sent = [body for _, body in answers.requests]
    [statements] = [one["fields"]["statements"] for one in sent if one["client"] == "codex"]
    fields = {one["event"]: one["fields"] for one in sent if one["client"] != "codex"}
    excerpt = fields["post-tool-use-failure"]["failed"]
    assert "MissingGreenlet" in excerpt
    assert fields == {
        "session-start": {"cause": "startup"},
        "user-prompt-submit": {"prompt": PROMPT},
        "file-edited": {"files": ["src/bank.py"], "edited": "def settle"},
        "before-commit": {
            "command": "git commit -m\nmysql -u\nsh ship.sh ship.sh\nbash go.sh go.sh"
        },
        "stop": {"reply": "The root cause was a pool that was closed twice."},
        "post-tool-use-failure": {"failed": excerpt},
        "post-tool-use": {
            "fixed": [
                {
                    "command": COMMAND,
                    "excerpt": excerpt,
                    "files": [FILE],
                    "commands": [],
                    "lines": ["- a = 1", "+ a = 2"],
                }
            ]
        },
    }
    assert statements == [{"text": "use npm ci", "kind": "rule", "is_explicit": True}]
    assert len(answers.requests) == len(fields) + 1
    for headers, body in answers.requests:
        assert headers["Authorization"] == "Bearer key-of-ann"
        assert headers["Commonbrain-Session"] == hooks.session
        assert UNSENT not in json.dumps(body)
        assert str(tmp_path) not in json.dumps(body)


@pytest.mark.parametrize(
    "answers",
    [
        Answers(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        Answers(status=302, body=b"", headers={"Location": "http://127.0.0.1:9/"}),
        Answers(body=b'{"text": 7}'),
        Answers(body=b'{"text": "' + b"x" * 2_000_000 + b'"}'),
        Answers(body=b"[" * 100_000),
        Answers(status=500, body=b'{"text": "shown"}'),
        Answers(status=403, body=b'{"detail": "' + b"y" * 100_000 + b'"}'),
    ],
)
def test_hook_shows_nothing_of_a_foreign_server(answers: Answers, tmp_path: Path) -> None:
    with answering(answers) as url:
        answered = Hooks(url=url, state=tmp_path / "state").call(
            "user-prompt-submit", prompt=PROMPT
        )
    assert (answered.status, answered.out) == (0, "")
    assert answered.err.startswith("commonbrain: ")
    assert len(answered.err.splitlines()) == 1
    assert len(answered.err) < 3000
    assert len(answers.requests) == 1


def test_hook_says_that_a_server_may_be_older_which_knows_less_of_it(tmp_path: Path) -> None:
    refusal = {
        "detail": "The request does not fit its schema.",
        "code": "invalid",
        "hint": "There is no argument 'is_of_user'.",
    }
    with answering(Answers(status=422, body=json.dumps(refusal).encode())) as url:
        hooks = Hooks(url=url, state=tmp_path / "state")
        answered = hooks.call("user-prompt-submit", prompt=PROMPT)
    assert (answered.status, answered.out) == (0, "")
    assert "may be older than this client. Upgrade" in answered.err
    assert "schema" not in answered.err
    assert "is_of_user" not in answered.err


def test_hook_ends_within_its_limit_if_the_server_is_dead_or_slow(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = {free_port(), silent.getsockname()[1]}
        for port in ports:
            since = monotonic()
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "commonbrain", "hook", "claude-code"),
                    *("user-prompt-submit", "--url", f"http://127.0.0.1:{port}"),
                ],
                input=json.dumps({"session_id": "s", "prompt": PROMPT}).encode(),
                capture_output=True,
                check=True,
                timeout=TIMEOUT_S,
                env=clean_environment(
                    COMMONBRAIN_STATE=str(tmp_path), COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="1.5"
                ),
            )
            assert done.stdout == b""
            assert len(done.stderr.splitlines()) == 1
            # The interpreter ends later on a busy machine.
            assert monotonic() - since < 1.5 + 3


@pytest.mark.parametrize("key", ["key-of-stranger", "key-of-rea", "a key", ""])
def test_hook_with_a_key_that_does_not_suffice_shows_and_stores_nothing(
    key: str, hooks: Hooks, shared: tuple[Brain, str]
) -> None:
    brain, _ = shared
    brain.remember(FACT, kind="fact")
    limited = Hooks(url=hooks.url, state=hooks.state, key=key)
    shown = limited.call("user-prompt-submit", prompt=PROMPT)
    stored = limited.call(
        "stop", last_assistant_message="The root cause was a pool that was closed twice."
    )
    assert (shown.status, shown.out, stored.status, stored.out) == (0, "", 0, "")
    assert len(shown.err.splitlines()) == 1
    assert brain.recall("", kinds=["event"], trust_min=0).items == ()


def test_key_of_a_file_is_used_and_none_if_the_server_needs_none(
    hooks: Hooks, shared: tuple[Brain, str], tmp_path: Path
) -> None:
    brain, _ = shared
    brain.remember(FACT, kind="fact")
    (tmp_path / "key").write_text("key-of-ben\n")
    answered = hooks.call("user-prompt-submit", "--key-file", str(tmp_path / "key"), prompt=PROMPT)
    assert FACT in answered.context
    answers = Answers()
    with answering(answers) as url:
        Hooks(url=url, state=hooks.state).call("user-prompt-submit", "--no-key", prompt=PROMPT)
    [(headers, _)] = answers.requests
    assert "Authorization" not in headers


def certify(path: Path) -> Path:
    """Write a certificate of localhost, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + made.public_bytes(Encoding.PEM))
    return path


def test_key_is_sent_over_https_only_to_a_server_whose_certificate_is_trusted(
    tmp_path: Path,
) -> None:
    certificate = certify(tmp_path / "certificate.pem")
    answers = Answers()
    with answering(answers, certificate=certificate) as url:
        hooks = Hooks(url=url, state=tmp_path / "state")
        refused = hooks.call("user-prompt-submit", prompt=PROMPT)
        assert answers.requests == []
        assert (refused.status, refused.out) == (0, "")
        assert "server_down" in refused.err
        trusted = hooks.call("user-prompt-submit", prompt=PROMPT, SSL_CERT_FILE=str(certificate))
    assert trusted.err == ""
    assert len(answers.requests) == 1


@pytest.mark.requirement("PF-14")
def test_hook_with_a_server_imports_no_large_packages(url: str, tmp_path: Path) -> None:
    program = (
        "import sys, os; from commonbrain.__main__ import main; "
        "os._exit = lambda code: (print(*sys.modules, file=sys.stderr), sys.exit(code)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "hook", "claude-code", "user-prompt-submit", "--url", url],
        input=json.dumps({"session_id": "s", "prompt": PROMPT}).encode(),
        capture_output=True,
        check=True,
        # The folder of its state is found without a setting.
        env=clean_environment(
            **PATIENT,
            COMMONBRAIN_STATE="",
            XDG_STATE_HOME=str(tmp_path),
            COMMONBRAIN_KEY="key-of-ann",
        ),
        timeout=TIMEOUT_S,
    )
    modules = set(done.stderr.decode().split())
    assert "socket" in modules
    assert not modules & {*HEAVY, "http", "email", "ssl", "argparse", "tempfile"}
    assert not modules & {"commonbrain.model.escaping", "commonbrain.hooks.failure_log"}


async def test_hooks_and_the_proxy_of_claude_code_share_a_session(
    hooks: Hooks, shared: tuple[Brain, str]
) -> None:
    brain, url = shared
    hooks.call("session-start", source="startup")
    env = clean_environment(COMMONBRAIN_KEY=hooks.key, CLAUDE_CODE_SESSION_ID=hooks.session)
    words = ["-m", "commonbrain", "mcp", "--url", url]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=env)
    client = Client(
        parameters,
        mode="legacy",
        client_info=Implementation(name="claude-code", version="2"),
        read_timeout_seconds=TIMEOUT_S,
    )
    async with client:
        stored = await client.call_tool("remember", {"text": FACT, "kind": "fact"})
    assert stored.structured_content
    [item] = stored.structured_content["items"]
    assert brain.get(item["id"]).session == hooks.session


@given(
    st.lists(
        st.sampled_from(
            [
                "def settle(order):", "class Ledger:", "const MakeRefund = (x) => x", "x = 1",
                "CREATE TABLE big_orders (id int)", "MAX_RETRIES = 3", "impl<T> Pool<T> {",
                "func (s *Store) CloseAll() {", "export function useCart() {",
            ]
        )
    ).map("\n".join)
)  # fmt: skip
def test_names_that_a_server_is_sent_are_those_of_the_edit(text: str) -> None:
    code = read_edit(("src/a.py",), text)
    sent = "\n".join(f"def {name}" for name in sorted(code.symbols))
    assert read_edit(("src/a.py",), sent) == code


@pytest.mark.parametrize("mode", ["auto", "propose"])
def test_what_was_selected_is_selected_again(mode: str) -> None:
    reply = (
        "Hello.\n\nThe root cause was a pool that was closed twice.\n\n"
        "The README says:\n> @decision Two pools\n\n@decision One pool per process\n"
        "Then I ran it.\n@remember The port is 8377.\n\nThe fix was to wait for the lock."
    )
    chosen = select_captured(reply, mode)
    assert chosen
    assert select_captured("\n\n".join(chosen), mode) == chosen


@pytest.mark.parametrize(
    ("sent", "received"), [(FixedFailure, FixFields), (UserStatement, StatementFields)]
)
def test_server_knows_the_fields_that_hooks_send(sent: Any, received: type[BaseModel]) -> None:  # noqa: ANN401 a dataclass
    assert [one.name for one in fields(sent)] == [*received.model_fields]


def test_every_action_says_what_a_server_needs_of_it() -> None:
    assert {hook.action for hook in HOOKS.values()} <= NEEDS.keys()
