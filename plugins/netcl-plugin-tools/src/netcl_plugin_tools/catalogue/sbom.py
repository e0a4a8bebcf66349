"""What a wheel is and what it needs, as machines read it: a CycloneDX document beside the wheel."""

from __future__ import annotations

import json
from typing import Any

from netcl_plugin_kit.packages.wheel import Wheel
from packaging.utils import canonicalize_name

#: What follows the name of a wheel's file.
SUFFIX = ".cdx.json"


def sbom(wheel: Wheel) -> str:
    """The document of a wheel (CycloneDX 1.6, JSON).

    What it needs has a name and what METADATA asks of its version: the installer chooses that.
    """
    this: dict[str, Any] = {
        "type": "library",
        "bom-ref": wheel.file,
        "name": wheel.name,
        "version": str(wheel.version),
        "purl": f"pkg:pypi/{wheel.name}@{str(wheel.version).replace('+', '%2B')}",
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
    }
    if wheel.metadata.licence:
        this["licenses"] = [{"license": {"name": wheel.metadata.licence}}]
    needs: dict[str, list[str]] = {}
    for requirement in wheel.needed:
        needs.setdefault(canonicalize_name(requirement.name), []).append(str(requirement))
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": "netcl:requires", "value": text} for text in texts],
        }
        for name, texts in sorted(needs.items())
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": this},
        "components": components,
        "dependencies": [
            {"ref": wheel.file, "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
