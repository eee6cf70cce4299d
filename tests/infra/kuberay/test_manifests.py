"""The manifests for Kubernetes and for Ray's cluster launcher, against the schemas of those who read them.

The definitions are a megabyte each and not ours: they are read where Go keeps modules, and the tests that need them
are skipped without. To get them:

    go mod download github.com/ray-project/kuberay/ray-operator@v1.6.1 sigs.k8s.io/kueue@v0.15.2
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from infra.settings import REPOSITORY

KUBERAY = REPOSITORY / "infra/kuberay"
FOLDERS = ("overlays/cpu", "overlays/gpu", "overlays/kueue", "cluster", "access")
MODULES = {
    "ray.io": "github.com/ray-project/kuberay/ray-operator@v1.6.1/config/crd/bases",
    "kueue.x-k8s.io": "sigs.k8s.io/kueue@v0.15.2/config/components/crd/bases",
}
"""By group of resources, the Go module with their definitions (Apache-2.0)."""


@functools.cache
def rendered(folder: str) -> tuple[dict[str, Any], ...]:
    """Return the resources of a folder, as `kubectl kustomize` renders them."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on this machine")
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERAY / folder)], capture_output=True, text=True, check=True, timeout=60
    )
    return tuple(yaml.safe_load_all(done.stdout))


@functools.cache
def definition(group: str, kind: str, version: str) -> dict[str, Any]:
    """Return the schema of a kind of custom resource."""
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=False).stdout.strip()
    folder = Path(cache, MODULES[group])
    if not cache or not folder.is_dir():
        pytest.skip(f"the definitions of {group} are not on this machine; see the top of this file")
    (file,) = folder.glob(f"{group}_{kind.lower()}s.yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the other takes ten seconds
    found = yaml.load(file.read_text(encoding="utf-8"), loader)
    return next(one["schema"]["openAPIV3Schema"] for one in found["spec"]["versions"] if one["name"] == version)


def unknown(value: Any, schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """Yield the places of fields that a schema does not have: an API server drops them in silence."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from unknown(one, schema.get("items", {}), f"{place}[{number}]")
    elif isinstance(value, dict) and (properties := schema.get("properties")):
        for name, one in value.items():
            if name in properties:
                yield from unknown(one, properties[name], f"{place}.{name}")
            else:
                yield f"{place}.{name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_manifests_are_as_kuberay_and_kueue_define_them(folder: str) -> None:
    custom = [one for one in rendered(folder) if one["apiVersion"].partition("/")[0] in MODULES]
    assert custom or folder == "access"
    for resource in custom:
        group, _, version = resource["apiVersion"].partition("/")
        schema = definition(group, resource["kind"], version)
        jsonschema.validate(resource, schema)
        # Metadata is everybody's, and its own schema is not repeated here.
        assert list(unknown({name: one for name, one in resource.items() if name != "metadata"}, schema)) == []


def pods(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pods of the head and of each group of workers."""
    cluster = resource["spec"].get("rayClusterSpec", resource["spec"])
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


@pytest.mark.parametrize("folder", ["overlays/cpu", "overlays/gpu", "overlays/kueue", "cluster"])
def test_rules_that_no_schema_has(folder: str) -> None:
    """KubeRay's own checks (controllers/ray/utils/validation.go), authentication, and no more rights than needed."""
    (resource,) = (one for one in rendered(folder) if one["kind"] in ("RayJob", "RayCluster"))
    spec = resource["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    assert cluster["authOptions"] == {"mode": "token"}
    names = [group["groupName"] for group in cluster["workerGroupSpecs"]]
    assert len(set(names)) == len(names) and ("gpu-workers" in names) == (folder != "overlays/cpu")
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for pod in pods(resource):
        assert pod["securityContext"]["runAsNonRoot"]
        (container,) = pod["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert ":" in container["image"] and not container["image"].endswith(":latest")
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert all("value" not in one for one in container["env"])  # secrets come by reference
    if resource["kind"] == "RayJob":
        assert spec["shutdownAfterJobFinishes"] and spec["backoffLimit"] == 0
    if folder == "overlays/kueue":
        assert spec["suspend"] and not cluster["enableInTreeAutoscaling"]
        assert resource["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] in {
            one["metadata"]["name"] for one in rendered(folder) if one["kind"] == "LocalQueue"
        }


def test_role_lets_the_launcher_do_what_it_asks_for() -> None:
    (role,) = (one for one in rendered("access") if one["kind"] == "Role")
    allowed = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    needed = {("rayjobs", verb) for verb in ("get", "create", "delete")} | {("pods", "list"), ("pods/log", "get")}
    assert allowed == needed


def test_versions_are_those_that_are_pinned() -> None:
    pinned = dict(
        line.split("==") for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if "==" in line
    )
    for folder in ("overlays/cpu", "cluster"):
        (resource,) = (one for one in rendered(folder) if one["kind"] in ("RayJob", "RayCluster"))
        assert resource["spec"].get("rayClusterSpec", resource["spec"])["rayVersion"] == pinned["ray"]


def test_cluster_yaml_is_as_rays_launcher_reads_it() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((REPOSITORY / "infra/cluster.yaml").read_text(encoding="utf-8"))
    prepared = prepare_config(config)
    prepared["cluster_synced_files"] = []
    validate_config(prepared)
    assert all("RAY_AUTH_MODE=token" in line for name in ("head", "worker") for line in
               config[f"{name}_start_ray_commands"] if "ray start" in line)  # fmt: skip
