#!/usr/bin/env bash
# Renders the Helm chart with each of its values and looks at the objects. Debian has no helm; its library
# comes from PyPI into a virtual environment under build/.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${STEPGATE_PYTHON:-python3}
environment=build/helm
if [[ ! -x $environment/bin/python ]]; then
  "$python" -m venv "$environment"
fi
"$environment/bin/python" -c 'import helm_python' 2>/dev/null ||
  "$environment/bin/pip" install --quiet --disable-pip-version-check helm-python-sdk==0.2.2 PyYAML
"$environment/bin/python" tests/full/chart_render.py charts/stepgate
