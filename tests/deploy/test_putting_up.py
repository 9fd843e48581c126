import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, documents

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
def test_two_answer_and_two_work_on_postgres_redis_and_object_storage() -> None:
    for name in ("api", "worker"):
        assert SERVICES[name]["deploy"]["replicas"] == 2
        # All of them have to find what one has learnt.
        assert SERVICES[name]["environment"]["COMMONBRAIN_BLOBS"].startswith("s3://")
        given = SERVICES[name]["secrets"]
        keys: list[str] = [one["target"] for one in given if isinstance(one, dict)]
        assert keys == ["commonbrain_blobs_key_id", "commonbrain_blobs_key"]
    assert {"postgres", "redis", "objects", "prometheus", "grafana"} <= SERVICES.keys()


def test_nothing_listens_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert COMPOSE["networks"]["inside"]["internal"]


def test_shared_files_contain_no_password() -> None:
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


def test_every_service_that_stays_shows_that_it_is_well() -> None:
    without = {name for name, one in SERVICES.items() if "healthcheck" not in one}
    # The image's own check is of the port that `api` answers at.
    assert without == {"api"}


def test_every_file_that_is_mounted_is_there() -> None:
    mounted = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert mounted
    assert all((DEPLOY / path).exists() for path in mounted)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_secrets_are_drawn_once_and_all_that_are_named(tmp_path: Path) -> None:
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
def test_pods_run_without_root_and_write_to_their_volumes_only(
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


def test_labels_that_select_are_those_of_pods() -> None:
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


def test_the_image_runs_as_a_user_without_rights_and_is_compiled() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8")
    last = lines.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "UV_COMPILE_BYTECODE=1" in lines
    assert "--extra server" in lines
    assert "uv" not in re.findall(r"COPY (\S+)", last)


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_can_be_read_by_a_shell(script: Path) -> None:
    subprocess.run(["sh", "-n", str(script)], check=True)  # noqa: S607
    assert "set -eu" in script.read_text("utf-8")


@pytest.mark.parametrize("unit", [*(DEPLOY / "systemd").glob("*.service")], ids=lambda p: p.name)
def test_units_are_confined(unit: Path) -> None:
    text = unit.read_text("utf-8")
    for line in ("NoNewPrivileges=true", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
        assert line in text
    assert not re.search("password|:[^/ .]+@", text)
