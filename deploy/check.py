#!/usr/bin/env python3
"""Validates compose.yaml and the Kubernetes manifests: `deploy/check.py`, with the packages of requirements.txt.

The packages contain both schemas, so no network is needed. Afterwards the script plants a mistake at each place, and each has to be found,
which reveals a schema that accepts everything.
"""

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import yaml

HERE = Path(__file__).resolve().parent
# preStop can sleep from 1.30 on. The last is the newest that the package knows.
RELEASES = ("1.30", "1.37")
MISTAKE = "misspelled"
# Below these, names are free.
FREE = {"labels", "matchLabels", "annotations", "requests", "limits", "selector"}


def manifests() -> Iterator[tuple[str, dict]]:
    for file in sorted((HERE / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            yield f"{file.name}: {document['kind']} {document['metadata']['name']}", document


def manifest_fault(document: dict) -> str:
    for release in RELEASES:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"{'.'.join(str(part) for part in error.path)}: {error.message}"
    return ""


def compose_fault(document: dict) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "compose.json"
        file.write_text(json.dumps(document))
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode else ""


def places(document: object, path: tuple = ()) -> Iterator[tuple]:
    """The places where an unknown name is a mistake."""
    if isinstance(document, dict):
        yield path
        for name, value in document.items():
            # The selector of a Service has labels; that of a set of pods is an object with rules.
            if name not in FREE or (name == "selector" and "matchLabels" in value):
                yield from places(value, (*path, name))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from places(value, (*path, number))


def with_mistake(document: dict, path: tuple) -> dict:
    changed = copy.deepcopy(document)
    at = changed
    for part in path:
        at = at[part]
    at[MISTAKE] = True
    return changed


def selects(selector: dict, labels: dict) -> bool:
    return selector.items() <= labels.items()


def unmet(documents: list[tuple[str, dict]]) -> list[str]:
    """Checks beyond the schemas: each selector matches a pod, and each mounted volume is declared."""
    faults, pods = [], []
    for name, document in documents:
        template = document["spec"].get("template")
        if not template:
            continue
        pods.append(template["metadata"]["labels"])
        volumes = {it["name"] for it in template["spec"].get("volumes", [])}
        volumes |= {it["metadata"]["name"] for it in document["spec"].get("volumeClaimTemplates", [])}
        for container in template["spec"]["containers"]:
            faults += [f"{name}: no volume {it['name']}" for it in container["volumeMounts"] if it["name"] not in volumes]
    for name, document in documents:
        selector = document["spec"].get("selector") or document["spec"].get("podSelector")
        if not any(selects(selector.get("matchLabels", selector), labels) for labels in pods):
            faults.append(f"{name}: selects no pod")
    return faults


def main() -> None:
    documents = list(manifests())
    compose = yaml.safe_load((HERE / "compose.yaml").read_text())
    faults = [f"{name}: {fault}" for name, document in documents if (fault := manifest_fault(document))]
    if fault := compose_fault(compose):
        faults.append(fault)
    faults += unmet(documents)
    if faults:
        raise SystemExit("\n".join(faults))
    planted = 0
    for name, document in documents:
        for path in places(document):
            planted += 1
            if not manifest_fault(with_mistake(document, path)):
                raise SystemExit(f"{name}: a mistake at {'.'.join(map(str, path))} is not found")
    one_service = copy.deepcopy(compose)
    one_service["services"] = {"node0": compose["services"]["node0"], "balancer": compose["services"]["balancer"]}
    for path in [(), ("services", "node0"), ("services", "node0", "healthcheck"), ("services", "node0", "build"), ("networks", "engine")]:
        planted += 1
        if not compose_fault(with_mistake(one_service, path)):
            raise SystemExit(f"compose.yaml: a mistake at {'.'.join(path)} is not found")
    print(f"{len(documents)} manifests (Kubernetes {' and '.join(RELEASES)}) and compose.yaml are as their schemas want; {planted} mistakes were found")


if __name__ == "__main__":
    main()
