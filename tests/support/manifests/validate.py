"""Validates Kubernetes resources (YAML on standard input) and Compose files (arguments)."""

import sys

import kubernetes_validate
import yaml
from compose_spec import PyCompose

# Kinds of custom resources, whose schemas Kubernetes does not publish. validate.mjs has them.
CUSTOM = {"ServiceMonitor"}

validated = 0
for resource in yaml.safe_load_all(sys.stdin):
    if resource["kind"] not in CUSTOM:
        kubernetes_validate.validate(resource, "1.37", strict=True)
        validated += 1
for file in sys.argv[1:]:
    with open(file) as text:
        PyCompose.from_yaml(text.read()).validate()
    validated += 1
print(validated)
