import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy_files import DEPLOY, documents

[COMPOSE] = documents("compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBERNETES = documents("kubernetes/commonbrain.yaml")
PODS = [
    (one["metadata"]["name"], one["spec"]["template"]["spec"])
    for one in KUBERNETES
    if one["kind"] in {"Deployment", "Job"}
]
SCRIPTS = [*DEPLOY.rglob("*.sh")]


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


def test_image_runs_as_an_unprivileged_user_with_compiled_bytecode() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8")
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
