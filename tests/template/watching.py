"""Checks of what is seen of a deployment: logs, alarms, the dashboard. Each gives its complaints."""

from __future__ import annotations

import io
import json
import re

from functions.telemetry import NAMESPACE, OUTCOMES, EmfMetrics
from shared.errors import Code
from tests.template.reading import PROJECT, Node, functions, nodes, of_type, references, sandboxes, text

PHASES = ("wait", "restore", "run", "collect", "store", "total")
"""Of a run (`shared.operations.room.RunMetrics`)."""


def logs(template: Node) -> list[str]:
    """A log group of its own for each function that may write one, JSON lines, kept for as long as a parameter says."""
    found = []
    groups = of_type(template, "AWS::Logs::LogGroup")
    found += [
        f"{name}: kept forever"
        for name, row in groups.items()
        if text(row.get("RetentionInDays", "")) != "LogRetentionDays"
    ]
    used = []
    for name, row in functions(template).items():
        if name in sandboxes(template):
            continue
        config = row.get("LoggingConfig", {})
        group = text(config.get("LogGroup", ""))
        if group not in groups or group in used:
            found.append(f"{name}: no log group of its own")
        used.append(group)
        if config.get("LogFormat") != "JSON":
            found.append(f"{name}: its log is no JSON")
    platform = template["Mappings"]["PlatformLogLevel"]
    found += [
        f"{level}: drops metrics, which have no level"
        for level, row in platform.items()
        if row["Level"] not in ("DEBUG", "INFO")
    ]
    return found


def alarms(template: Node) -> list[str]:
    """Alarms on errors, throttles, failed executions, unsettled writes and dead letters, of metrics that there are."""
    found = []
    emitted = _emitted()
    watched: set[str] = set()
    for name, row in of_type(template, "AWS::CloudWatch::Alarm").items():
        if "HasAlarmTarget" not in str(row.get("AlarmActions")):
            found.append(f"{name}: tells nobody")
        if row.get("TreatMissingData") != "notBreaching":
            found.append(f"{name}: rings while nothing runs")
        metrics = [node for node in nodes(row) if "MetricName" in node]
        for metric in metrics:
            watched.add(metric["MetricName"])
            for dimension in metric.get("Dimensions", []):
                if dimension["Name"] == "FunctionName":
                    watched.add(f"{metric['MetricName']} of {text(dimension['Value'])}")
                if metric["Namespace"] == NAMESPACE and (dimension["Name"], dimension["Value"]) not in _dimensions():
                    found.append(f"{name}: {dimension['Value']} is no outcome")
                watched.add(f"{metric['MetricName']} {text(dimension['Value'])}")
            under = frozenset(dimension["Name"] for dimension in metric.get("Dimensions", []))
            if metric["Namespace"] == NAMESPACE and (metric["MetricName"], under) not in emitted:
                found.append(f"{name}: {metric['MetricName']} is not measured")
    for name in functions(template):
        found += [
            f"{name}: no alarm on {kind}" for kind in ("Errors", "Throttles") if f"{kind} of {name}" not in watched
        ]
    for code in (Code.EXECUTOR_BROKEN, Code.EXECUTOR_UNAVAILABLE, Code.EXECUTOR_TIMEOUT):
        if f"runs error:{code.value.code}" not in watched:
            found.append(f"no alarm on {code.value.code}")
    others = ("unsettled_writes_oldest_s", "ApproximateNumberOfMessagesVisible", "5xx")
    found += [f"no alarm on {other}" for other in others if other not in watched]
    return found


def _emitted() -> set[tuple[str, frozenset[str]]]:
    """Each metric that the code writes, with the dimensions under which it is found."""
    lines = io.StringIO()
    metrics = EmfMetrics(lines)
    metrics.run(lang="py", outcome="ok", ms=dict.fromkeys(PHASES, 1), bytes_in=1, bytes_out=1)
    # What the janitor gauges is written in its own module.
    janitor = (PROJECT / "functions/janitor/app.py").read_text("utf-8")
    metrics.gauges(**dict.fromkeys(re.findall(r"(\w+)=\(\"(?:Seconds|Count)\"", janitor), ("Count", 1)))
    return {
        (metric["Name"], frozenset(dimensions))
        for line in lines.getvalue().splitlines()
        for directive in json.loads(line)["_aws"]["CloudWatchMetrics"]
        if directive["Namespace"] == NAMESPACE
        for dimensions in directive["Dimensions"]
        for metric in directive["Metrics"]
    }


def _dimensions() -> set[tuple[str, str]]:
    return {("outcome", outcome) for outcome in (*OUTCOMES, *(f"error:{code.value.code}" for code in Code))}


def dashboard(template: Node) -> list[str]:
    """The dashboard is JSON once its references are filled in, and shows functions and metrics that there are."""
    found = []
    for name, row in of_type(template, "AWS::CloudWatch::Dashboard").items():
        body = row["DashboardBody"]["Fn::Sub"]
        known = set(template["Resources"]) | {"AWS::Region", "AWS::StackName"}
        found += [f"{name}: {one} is not here" for one in sorted(references(row) - known)]
        try:
            shown = json.loads(re.sub(r"\$\{[^}]*\}", "x", body))
        except ValueError:
            found.append(f"{name}: is no JSON")
            continue
        found += [f"{name}: a widget without metrics" for one in shown["widgets"] if not one["properties"]["metrics"]]
        rows = [metric for one in shown["widgets"] for metric in one["properties"]["metrics"]]
        ours = {metric[1] for metric in rows if metric[0] == NAMESPACE}
        ours |= {told for metric in rows for told in re.findall(r'MetricName="(\w+)"', str(metric[0]))}
        found += [f"{name}: {one} is not measured" for one in sorted(ours - {metric for metric, _ in _emitted()})]
        found += [f"{name}: does not show {one}" for one in functions(template) if f"${{{one}}}" not in body]
    return found if of_type(template, "AWS::CloudWatch::Dashboard") else ["there is no dashboard"]
