"""What the chart's templates become, for chart-render.sh: python chart_render.py CHART"""

import sys

import yaml
from helm_python import Chart, lint

SECURED = {
    "metrics": {"authSecret": "page-auth", "tlsSecret": "page-tls", "tlsServerName": "ranks.example"},
    "environment": {"enabled": True},
    "podMonitor": {
        "enabled": True,
        "ranksPerPod": 2,
        "labels": {"release": "monitoring"},
        "selector": {"matchLabels": {"training": "yes"}},
        "podTargetLabels": ["training.kubeflow.org/job-name"],
    },
    "rules": {"labels": {"release": "monitoring"}},
}
PLAIN = {"environment": {"enabled": True}, "podMonitor": {"enabled": True}}


def objects(chart, values):
    """The rendered objects by kind; each template gives one or none."""
    found = {}
    for text in chart.render(values, name="train", namespace="jobs").values():
        for document in yaml.safe_load_all(text):
            if document is not None:
                assert document["kind"] not in found, document["kind"] + " twice"
                found[document["kind"]] = document
    return found


def check_defaults(chart, path):
    found = objects(chart, {})
    assert set(found) == {"PrometheusRule"}, set(found)
    rules = yaml.safe_load(open(path + "/rules/alerts.yaml", encoding="utf-8"))
    assert found["PrometheusRule"]["spec"] == rules, "the rules are not the file's"
    assert objects(chart, {"rules": {"enabled": False}}) == {}


def check_plain(chart):
    found = objects(chart, PLAIN)
    data = found["ConfigMap"]["data"]
    assert data == {"STEPGATE_METRICS_ADDR": "0.0.0.0", "STEPGATE_METRICS_PORT": "19470"}, data
    (endpoint,) = found["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "http" and endpoint["port"] == "stepgate-0", endpoint
    assert "basicAuth" not in endpoint and "tlsConfig" not in endpoint, endpoint


def check_secured(chart):
    found = objects(chart, SECURED)
    data = found["ConfigMap"]["data"]
    assert data["STEPGATE_METRICS_AUTH_FILE"] == "/etc/stepgate/auth/auth", data
    assert data["STEPGATE_METRICS_TLS_CERTIFICATE"] == "/etc/stepgate/tls/tls.crt", data
    assert data["STEPGATE_METRICS_TLS_KEY"] == "/etc/stepgate/tls/tls.key", data
    spec = found["PodMonitor"]["spec"]
    assert spec["selector"] == {"matchLabels": {"training": "yes"}}, spec
    assert spec["podTargetLabels"] == ["training.kubeflow.org/job-name"], spec
    assert found["PodMonitor"]["metadata"]["labels"]["release"] == "monitoring"
    assert found["PrometheusRule"]["metadata"]["labels"]["release"] == "monitoring"
    for rank, endpoint in enumerate(spec["podMetricsEndpoints"]):
        assert endpoint["port"] == f"stepgate-{rank}" and endpoint["path"] == "/metrics", endpoint
        assert endpoint["relabelings"] == [{"targetLabel": "local_rank", "replacement": str(rank)}], endpoint
        assert endpoint["scheme"] == "https", endpoint
        assert endpoint["basicAuth"]["password"] == {"name": "page-auth", "key": "password"}, endpoint
        assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "page-tls", "key": "ca.crt"}, endpoint
        assert endpoint["tlsConfig"]["serverName"] == "ranks.example", endpoint
    assert len(spec["podMetricsEndpoints"]) == 2


def check_lint(path):
    for values in ({}, PLAIN, SECURED):
        report = lint(path, values, strict=True)
        bad = [m for m in report["messages"] if m["severity"] >= 2]
        assert not bad and not report["errors"], report


def main():
    path = sys.argv[1]
    with Chart.load(path) as chart:
        check_defaults(chart, path)
        check_plain(chart)
        check_secured(chart)
    check_lint(path)
    print("the chart renders as it must")


main()
