"""The files of deploy/, read as an engine, a cluster and a balancer would: schemas, and what must fit together."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fixtures.balancer import configured, needs_haproxy
from fixtures.certificates import self_signed
from fixtures.container import CONTAINERFILE, ROOT, instructions, stages
from fixtures.replicas import HAPROXY
from gatemini.config.load import Loaded, load_config
from gatemini.http import server
from gatemini.policy.audit import configured_log

DEPLOY = ROOT / "deploy"
SCHEMAS = ROOT / "tests" / "data" / "schemas"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
REPLICAS = [f"gatemini-{number}" for number in (1, 2, 3)]
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
MANIFESTS = {path.stem: yaml.safe_load(path.read_text()) for path in (DEPLOY / "kubernetes").glob("*.yaml")}
POD = MANIFESTS["deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
IMAGE = dict(stages(CONTAINERFILE.read_text())[-1][1])


def refused(manifest: dict[str, Any]) -> list[str]:
    """What the schema of its kind says against a Kubernetes manifest; keys it does not know count."""
    schema = json.loads((SCHEMAS / "kubernetes.json").read_text())
    group, _, version = manifest["apiVersion"].rpartition("/")
    ends = f".{group.removesuffix('.k8s.io') or 'core'}.{version}.{manifest['kind']}"
    (name,) = [name for name in schema["$defs"] if name.startswith("io.k8s.api.") and name.endswith(ends)]
    check = jsonschema.Draft7Validator({**schema, "$ref": f"#/$defs/{name}"})
    return [f"{error.json_path}: {error.message}" for error in check.iter_errors(manifest)]


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_a_manifest_is_what_kubernetes_defines(name: str) -> None:
    assert refused(MANIFESTS[name]) == []


def test_a_misspelt_key_deep_in_a_manifest_is_found() -> None:
    wrong = json.loads(json.dumps(MANIFESTS["deployment"]))
    (container,) = wrong["spec"]["template"]["spec"]["containers"]
    container["readinessProbe"]["httpGet"]["pth"] = container["readinessProbe"]["httpGet"].pop("path")
    assert len(refused(wrong)) == 1


def test_the_compose_file_is_what_its_specification_defines() -> None:
    check = jsonschema.Draft7Validator(json.loads((SCHEMAS / "compose-spec.json").read_text()))
    assert [error.message for error in check.iter_errors(COMPOSE)] == []
    wrong = {**COMPOSE, "services": {**COMPOSE["services"], "x": {"image": "x", "readonly": True}}}
    assert [*check.iter_errors(wrong)] != []


def configuration(folder: Path, **environ: str) -> Loaded:
    """The configuration with secrets of the test's own."""
    for name in ("state.key", "audit.key"):
        (folder / name).write_text("ab" * 32)
        (folder / name).chmod(0o600)
    text = (DEPLOY / "config" / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("/run/secrets/gatemini", str(folder)))
    return load_config(folder / "config.yaml", environ=environ, config_dir=folder)


def test_the_configuration_is_locked_and_has_no_finding(tmp_path: Path) -> None:
    loaded = configuration(tmp_path)
    assert loaded.problems == ()
    assert loaded.config.profile == "locked"
    assert loaded.config.profile_exceptions == {}
    assert loaded.config.http.auth.tokens is not None


def test_kubernetes_puts_its_own_proxies_and_store_into_the_configuration(tmp_path: Path) -> None:
    environ = {each["name"]: each.get("value", "rediss://:secret@valkey:6379/0") for each in CONTAINER["env"]}
    loaded = configuration(tmp_path, **environ)
    assert loaded.problems == ()
    assert loaded.config.http.trusted_proxies == ("10.0.0.0/8",)
    assert loaded.config.state.url == "rediss://:secret@valkey:6379/0"


def test_every_file_is_in_the_kustomization_and_no_secret_is_in_the_tree() -> None:
    listed = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["files"]}
    assert [path for path in listed if not (DEPLOY / path).exists()] == []
    there = {f"kubernetes/{name}.yaml" for name in MANIFESTS if name != "secret.example"}
    assert there <= listed
    assert {path for path in listed if path.startswith("config/")} == {
        f"config/{path.name}" for path in (DEPLOY / "config").iterdir()
    }
    assert set(MANIFESTS["secret.example"]["stringData"].values()) == {""}
    assert not (DEPLOY / "secrets").exists() or "deploy/secrets/" in (ROOT / ".gitignore").read_text()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl was not found")
def test_kubectl_makes_manifests_from_the_kustomization() -> None:
    made = subprocess.run(["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True)
    manifests = list(yaml.safe_load_all(made.stdout))
    assert {each["kind"] for each in manifests} == {
        "Namespace", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim", "ConfigMap"
    }  # fmt: skip
    (config,) = [each for each in manifests if each["kind"] == "ConfigMap"]
    (deployment,) = [each for each in manifests if each["kind"] == "Deployment"]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert [each["configMap"]["name"] for each in volumes if "configMap" in each] == [
        config["metadata"]["name"]
    ]
    for each in manifests:
        assert refused(each) == []


def test_the_pod_keeps_to_the_restricted_standard() -> None:
    assert POD["automountServiceAccountToken"] is False
    own = f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert own == IMAGE["USER"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for volume in POD["volumes"]:
        assert len({"configMap", "secret", "persistentVolumeClaim", "emptyDir"} & set(volume)) == 1
    assert {each["name"] for each in CONTAINER["volumeMounts"]} == {each["name"] for each in POD["volumes"]}


def test_each_replica_of_the_compose_file_is_confined_and_runs_as_the_image_says() -> None:
    for name in REPLICAS:
        service = COMPOSE["services"][name]
        assert (service["user"], service["read_only"], service["cap_drop"]) == (IMAGE["USER"], True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in service, "clients reach it through HAProxy only"
    written = [line.partition(":")[0] for line in COMPOSE["services"]["gatemini-1"]["tmpfs"]]
    assert written == ["/tmp", "/var/lib/gatemini"]


def test_a_replica_has_the_time_that_its_configuration_gives_it_to_drain(tmp_path: Path) -> None:
    config = configuration(tmp_path).config
    drained = config.http.drain_delay + config.daemon.client_drain_timeout
    closing = 3 * server.STOP_SECONDS + configured_log.CLOSING_SECONDS + 5  # the last: stopping backends
    assert POD["terminationGracePeriodSeconds"] >= drained + closing
    assert int(COMPOSE["services"]["gatemini-1"]["stop_grace_period"].removesuffix("s")) >= drained + closing
    probe = CONTAINER["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < config.http.drain_delay
    assert "inter 1s fastinter 500ms fall 1" in (DEPLOY / "haproxy.cfg").read_text()


def test_ports_probes_and_the_service_fit_the_configuration(tmp_path: Path) -> None:
    config = configuration(tmp_path).config
    port = int(config.http.listen.rpartition(":")[2])
    assert [each["containerPort"] for each in CONTAINER["ports"]] == [port]
    assert MANIFESTS["service"]["spec"]["ports"][0]["targetPort"] == CONTAINER["ports"][0]["name"]
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert IMAGE["EXPOSE"] == str(port)
    subnet = COMPOSE["networks"]["replicas"]["ipam"]["config"][0]["subnet"]
    assert list(config.http.trusted_proxies) == [subnet]


def test_the_container_file_installs_by_hash_and_runs_as_nobody() -> None:
    text = CONTAINERFILE.read_text()
    installs = [
        rest for word, rest in instructions(text) if word == "RUN" and "install" in rest and "pip" in rest
    ]
    assert [("--require-hashes" in rest) or ("--no-deps" in rest) for rest in installs] == [True, True]
    assert not any(word in text for word in ("node ", "npm", "curl", "apt-get"))
    assert json.loads(IMAGE["ENTRYPOINT"])[0].startswith("/opt/gatemini/")


@needs_haproxy
def test_haproxy_accepts_its_configuration_and_knows_the_replicas_of_the_compose_file(tmp_path: Path) -> None:
    text = (DEPLOY / "haproxy.cfg").read_text()
    assert [line.split()[1] for line in text.splitlines() if line.strip().startswith("server ")] == REPLICAS
    pem = self_signed(tmp_path / "tls.pem")
    file = configured(tmp_path, pem, 8443, 8405)
    found = subprocess.run([str(HAPROXY), "-c", "-f", str(file)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "WARNING" not in found.stderr
    file.write_text(file.read_text().replace("balance roundrobin", "balance roundrobbin"))
    assert subprocess.run([str(HAPROXY), "-c", "-f", str(file)], capture_output=True).returncode == 1
