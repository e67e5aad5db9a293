"""Kubernetes and Ray: what is rendered fits together, and fits the image."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from scenewright.service.api.access import OPEN
from tests.deploy.reading import (
    DEPLOY,
    FOLDERS,
    KUBERNETES,
    PAGE,
    ROOT,
    compose,
    of,
    parsed,
    pods,
    rendered,
    settings_of,
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_named_is_there(folder: str) -> None:
    objects = rendered(folder)
    if folder == "kuberay":
        objects += rendered("kubernetes/base")
    there = {(o["kind"], o["metadata"]["name"]) for o in objects}
    found = [pod for o in objects for pod in pods(o)]
    assert found
    for _, spec in found:
        # Variables for a Service would collide with the settings of scenewright and of vLLM.
        assert spec["enableServiceLinks"] is False
        assert not spec.get("hostNetwork")
        for volume in spec.get("volumes", ()):
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert ("PersistentVolumeClaim", claim) in there
        mounts = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", ())}
        assert mounts == {volume["name"] for volume in spec.get("volumes", ())}
    # Secrets are made by hand: the page must say how.
    for name in re.findall(
        r"'(?:secretKeyRef|secretRef)': \{[^}]*'name': '([\w-]+)'", str(objects)
    ):
        assert f"secret generic {name}" in PAGE
    for o in objects:
        if o["kind"] in ("Service", "NetworkPolicy"):
            chosen = o["spec"].get("selector") or o["spec"]["podSelector"]["matchLabels"]
            assert any(chosen.items() <= labels.items() for labels, _ in found)


@pytest.mark.parametrize(
    ("name", "command"), [("scenewright", "serve"), ("scenewright-worker", "worker")]
)
def test_the_pods_run_the_image_as_it_is_made(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in rendered("kubernetes/base")}
    deployment = objects["Deployment", name]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert parsed(container["args"]) == [command]
    assert ("--no-work" in container["args"]) == (command == "serve")
    assert f"{container['ports'][0]['containerPort']}" == of("EXPOSE")[0]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {of("VOLUME")[0], of("WORKDIR", stage=2)[-1]} <= mounts
    security = spec["securityContext"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == of("USER", stage=2)[-1]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in OPEN
        assert container[probe]["httpGet"]["port"] == container["ports"][0]["name"]
    # A server that drains is unready and alive: it must not be killed for it.
    assert container["livenessProbe"]["httpGet"]["path"] != "/readyz"
    config = next(v["data"] for (k, n), v in objects.items() if n.startswith("scenewright-service"))
    settings = settings_of(monkeypatch, config)
    # Requests go to a server for a moment after it has been told to end; none go to a worker.
    hook = container["lifecycle"]["preStop"]["exec"]["command"] if command == "serve" else "00"
    pause = int(hook[1])
    assert spec["terminationGracePeriodSeconds"] > settings.drain_seconds + pause
    # The autoscaler's number would be undone by every apply.
    assert "replicas" not in deployment["spec"]
    scaled = objects["HorizontalPodAutoscaler", name]["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("Deployment", name)


def test_a_worker_says_how_it_is_where_its_probes_ask() -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in rendered("kubernetes/base")}
    (container,) = objects["Deployment", "scenewright-worker"]["spec"]["template"]["spec"][
        "containers"
    ]
    port = container["args"][container["args"].index("--health-port") + 1]
    assert port == f"{container['ports'][0]['containerPort']}"


def test_gpus_go_to_who_draws() -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in rendered("kubernetes/overlays/gpu")}
    wanting = {
        name: "nvidia.com/gpu"
        in o["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        for (kind, name), o in objects.items()
        if kind == "Deployment"
    }
    assert wanting == {"scenewright": False, "scenewright-worker": True, "vllm": True}


def test_who_draws_with_the_service_may_ask_vllm() -> None:
    objects = rendered("kubernetes/overlays/gpu")
    policy = next(o for o in objects if o["kind"] == "NetworkPolicy")
    allowed = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    asking = [
        o
        for o in objects
        if o["metadata"]["name"] in ("scenewright", "scenewright-worker")
        and o["kind"] == "Deployment"
    ]
    assert len(asking) == 2
    asking += [o for o in rendered("kuberay") if o["kind"] == "RayCluster"]
    for labels, _ in (pod for o in asking for pod in pods(o)):
        assert allowed.items() <= labels.items()


def test_the_same_vllm_is_started_as_by_compose() -> None:
    vllm = compose()["services"]["vllm"]
    found = next(
        spec
        for o in rendered("kubernetes/overlays/gpu")
        if o["metadata"]["name"] == "vllm"
        for _, spec in pods(o)
    )["containers"][0]
    assert (found["image"], found["command"], found["args"]) == (
        vllm["image"], vllm["entrypoint"], vllm["command"],
    )  # fmt: skip


def test_the_job_that_makes_a_key_is_a_command() -> None:
    job = yaml.safe_load((KUBERNETES / "key-job.yaml").read_text(encoding="utf-8"))
    ((_, spec),) = pods(job)
    assert spec["enableServiceLinks"] is False
    assert parsed(spec["containers"][0]["args"]) == ["keys", "create"]


def test_the_job_runs_an_evaluation_that_can_be_read() -> None:
    from scenewright.evals.runner.config import load_config

    words = shlex.split(
        yaml.safe_load((DEPLOY / "kuberay" / "rayjob.yaml").read_text())["spec"]["entrypoint"]
    )
    assert words[0] == "scenewright"
    assert parsed(words[1:]) == ["eval", "run"]
    assert load_config(DEPLOY / "kuberay" / Path(words[3]).name).metrics
    assert Path(words[3]).parent == Path(of("WORKDIR", stage=2)[-1])
    assert Path(of("VOLUME")[0]) in Path(words[words.index("--out") + 1]).parents


def test_the_cluster_has_the_version_of_ray_that_is_pinned() -> None:
    cluster = yaml.safe_load((DEPLOY / "kuberay" / "raycluster.yaml").read_text())
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^ray==(\S+)$", pins, re.MULTILINE)
    if pinned is None:
        pytest.skip("constraints.txt pins no ray")
    assert cluster["spec"]["rayVersion"] == pinned[1]
