"""Each check reports the template that it is there for: one change at a time, each of which the linters accept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.template import doors, placement, stores, watching
from tests.template.conftest import Served
from tests.template.reading import Node

Change = Callable[[Node], Any]


@dataclass(frozen=True)
class Mutation:
    """A change, the check that has to see it, and a part of what it says."""

    name: str
    check: Callable[[Node], list[str]]
    said: str
    change: Change


def row(template: Node, name: str) -> Node:
    """A resource's properties."""
    found: Node = template["Resources"][name]["Properties"]
    return found


def put(name: str, **values: Any) -> Change:
    """Set properties of a resource."""
    return lambda template: row(template, name).update(values)


def drop(name: str, key: str) -> Change:
    """Remove a property of a resource."""
    return lambda template: row(template, name).pop(key)


def variable(name: str, key: str, value: Any = None) -> Change:
    """Set or, with None, remove a variable of a function."""

    def change(template: Node) -> None:
        variables = row(template, name)["Environment"]["Variables"]
        if value is None:
            del variables[key]
        else:
            variables[key] = value

    return change


def statement(name: str, place: int, **values: Any) -> Change:
    """Change a statement of a policy that stands in PolicyDocument."""
    return lambda template: row(template, name)["PolicyDocument"]["Statement"][place].update(values)


def without_statement(name: str, place: int) -> Change:
    """Remove one."""
    return lambda template: row(template, name)["PolicyDocument"]["Statement"].pop(place)


def of_role(name: str, place: int, **values: Any) -> Change:
    """Change a statement of the last of a role's own policies."""
    return lambda template: row(template, name)["Policies"][-1]["PolicyDocument"]["Statement"][place].update(values)


def resource(name: str, kind: str, **properties: Any) -> Change:
    """Add a resource."""
    return lambda template: template["Resources"].update({name: {"Type": kind, "Properties": properties}})


def parameter(name: str, **values: Any) -> Change:
    """Change a parameter."""
    return lambda template: template["Parameters"][name].update(values)


HTTP_EVENT = {"Any": {"Type": "HttpApi", "Properties": {"Path": "/v1/exec", "Method": "post"}}}
EVERYWHERE = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}

PLACEMENT = (
    Mutation("another isolation value", placement.tenancy, "must be PER_TENANT",
             put("SandboxFunction", TenancyConfig={"TenantIsolationMode": "PER_BANANA"})),
    Mutation("no isolation", placement.tenancy, "must be PER_TENANT", drop("SandboxFunction", "TenancyConfig")),
    Mutation("isolation on the API function", placement.tenancy, "runs no program",
             put("ApiFunction", TenancyConfig={"TenantIsolationMode": "PER_TENANT"})),
    Mutation("an HTTP event on the sandbox", placement.tenancy, "cannot give a tenant",
             put("SandboxFunction", Events=HTTP_EVENT)),
    Mutation("a function URL on the sandbox", placement.tenancy, "FunctionUrlConfig",
             put("SandboxFunction", FunctionUrlConfig={"AuthType": "AWS_IAM"})),
    Mutation("SnapStart on the sandbox", placement.tenancy, "SnapStart",
             put("SandboxFunction", SnapStart={"ApplyOn": "PublishedVersions"})),
    Mutation("provisioned concurrency on the sandbox", placement.tenancy, "ProvisionedConcurrencyConfig",
             put("SandboxFunction", ProvisionedConcurrencyConfig={"ProvisionedConcurrentExecutions": 1})),
    Mutation("a route to the sandbox", placement.tenancy, "reached by an Integration",
             put("ApiIntegration", IntegrationUri={"Fn::GetAtt": ["SandboxFunction", "Arn"]})),
    Mutation("SnapStart on an image", placement.snapshots, "does not support images",
             put("SandboxFunction", SnapStart={"ApplyOn": "PublishedVersions"}, AutoPublishAlias="live")),
    Mutation("SnapStart without an alias", placement.snapshots, "need an alias",
             drop("ApiFunction", "AutoPublishAlias")),
    Mutation("SnapStart behind the adapter", placement.snapshots, "every environment's",
             put("StreamFunction", SnapStart={"ApplyOn": "PublishedVersions"}, AutoPublishAlias="live")),
    Mutation("the API calls the unpublished function", placement.snapshots, "not the published alias",
             put("ApiIntegration", IntegrationUri={"Fn::GetAtt": ["ApiFunction", "Arn"]})),
    Mutation("the API may call the unpublished function only", placement.snapshots, "may not call",
             put("ApiPermission", FunctionName={"Ref": "ApiFunction"})),
    Mutation("a permission for each route", placement.snapshots, "20 KB",
             put("ApiFunction", Events={f"E{n}": HTTP_EVENT["Any"] for n in range(40)})),
    Mutation("a version without the isolation scope", placement.versions, "Isolation changes without",
             put("ApiFunction", VersionDescription={"Fn::Sub": "${Revision}"})),
    Mutation("a version for nothing new", placement.versions, "an unchanged function",
             lambda t: row(t, "ApiFunction")["VersionDescription"].update({"Fn::Sub": "${Revision} ${ThrottleRate}"})),
    Mutation("versions of code only", placement.versions, "only its code",
             drop("ApiFunction", "AutoPublishAliasAllProperties")),
    Mutation("a version's description that is too long", placement.versions, "characters",
             parameter("JwtIssuer", MaxLength=250)),
    Mutation("the sandbox reads the bucket", placement.sandbox_role, "allows s3:GetObject",
             of_role("SandboxRole", 0, Action=["s3:GetObject"])),
    Mutation("the sandbox writes logs", placement.sandbox_role, "allows logs:PutLogEvents",
             of_role("SandboxRole", 0, Action=["ec2:CreateNetworkInterface", "logs:PutLogEvents"])),
    Mutation("the sandbox may use its role", placement.sandbox_role, "may use its role",
             lambda t: row(t, "SandboxRole")["Policies"][0]["PolicyDocument"]["Statement"].pop()),
    Mutation("the refusal is only of others", placement.sandbox_role, "may use its role",
             of_role("SandboxRole", 1, Condition={"Null": {"lambda:SourceFunctionArn": "true"}})),
    Mutation("the sandbox has the API's role", placement.sandbox_role, "shares its role",
             put("SandboxFunction", Role={"Fn::GetAtt": ["ApiRole", "Arn"]})),
    Mutation("the sandbox knows the table", placement.sandbox_role, "names something",
             variable("SandboxFunction", "WORKROOM_ALONE", {"Ref": "Table"})),
    Mutation("the sandbox is traced", placement.sandbox_role, "logs or traces",
             put("SandboxFunction", Tracing="Active")),
    Mutation("the sandbox outside the subnets", placement.network, "not in two subnets",
             drop("SandboxFunction", "VpcConfig")),
    Mutation("one zone", placement.network, "one zone",
             lambda t: row(t, "SubnetB").update(AvailabilityZone=row(t, "SubnetA")["AvailabilityZone"])),
    Mutation("a route out", placement.network, "a way out",
             resource("Out", "AWS::EC2::Route", RouteTableId={"Ref": "RouteTable"}, DestinationCidrBlock="0.0.0.0/0")),
    Mutation("a gateway", placement.network, "a way out", resource("Gateway", "AWS::EC2::InternetGateway")),
    Mutation("public addresses", placement.network, "public", put("SubnetA", MapPublicIpOnLaunch=True)),
    Mutation("the main route table", placement.network, "main route table",
             lambda t: t["Resources"].pop("SubnetBRoutes")),
    Mutation("another endpoint", placement.network, "other than S3",
             put("S3Endpoint", VpcEndpointType="Interface")),
    Mutation("an endpoint without a policy", placement.network, "every bucket", drop("S3Endpoint", "PolicyDocument")),
    Mutation("an endpoint to every bucket", placement.network, "our bucket", statement("S3Endpoint", 0, Resource="*")),
    Mutation("an endpoint that deletes", placement.network, "our bucket", statement("S3Endpoint", 0, Action="s3:*")),
    Mutation("an endpoint for any credentials", placement.network, "our grants",
             statement("S3Endpoint", 0, Condition={})),
    Mutation("something comes in", placement.network, "lets something in",
             put("SandboxSecurityGroup", SecurityGroupIngress=[EVERYWHERE])),
    Mutation("everything goes out", placement.network, "everything goes out",
             drop("SandboxSecurityGroup", "SecurityGroupEgress")),
    Mutation("any port goes out", placement.network, "more than HTTPS",
             put("SandboxSecurityGroup", SecurityGroupEgress=[EVERYWHERE])),
    Mutation("the prefix list is not used", placement.network, "prefix list",
             put("SandboxSecurityGroup",
                 SecurityGroupEgress=[{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}])),
    Mutation("any name is resolved", placement.network, "resolver",
             lambda t: t["Resources"].pop("DnsFirewall")),
    Mutation("names of others are resolved", placement.network, "resolver",
             put("DnsAllowed", Domains=["*.example.org"])),
    Mutation("names are only watched", placement.network, "resolver",
             lambda t: row(t, "DnsRules")["FirewallRules"][1].update(Action="ALERT")),
)  # fmt: skip

STORES = (
    Mutation("the API scans", stores.permissions, "may dynamodb:Scan",
             statement("StorePolicy", 0, Action=["dynamodb:Scan"])),
    Mutation("the API cannot check", stores.permissions, "may not dynamodb:ConditionCheckItem",
             statement("StorePolicy", 0, Action=[f"dynamodb:{one}" for one in ("GetItem", "Query", "PutItem")])),
    Mutation("every table", stores.permissions, "on *, which nothing calls", statement("StorePolicy", 0, Resource="*")),
    Mutation("every action", stores.permissions, "every action of a kind", statement("StorePolicy", 1, Action="s3:*")),
    Mutation("the API deletes objects", stores.permissions, "ApiFunction: may s3:DeleteObject",
             statement("RunPolicy", 1, Action=["s3:PutObject", "s3:DeleteObject"])),
    Mutation("missing objects answer 403", stores.permissions, "may not s3:ListBucket",
             without_statement("StorePolicy", 2)),
    Mutation("the janitor runs programs", stores.permissions, "JanitorFunction: may lambda:InvokeFunction",
             lambda t: row(t, "JanitorRole")["ManagedPolicyArns"].append({"Ref": "RunPolicy"})),
    Mutation("every function may be called", stores.permissions, "on *, which nothing calls",
             statement("RunPolicy", 0, Resource="*")),
    Mutation("any event", stores.permissions, "not Workroom's", of_role("WorkerRole", 1, Condition={})),
    Mutation("another's log", stores.permissions, "StreamFunction: may not logs:PutLogEvents on StreamLogs.Arn",
             of_role("StreamRole", 0, Resource={"Fn::GetAtt": ["ApiLogs", "Arn"]})),
    Mutation("a role for others", stores.permissions, "others than Lambda",
             lambda t: row(t, "ApiRole")["AssumeRolePolicyDocument"]["Statement"][0].update(Principal={"AWS": "*"})),
    Mutation("the bucket goes", stores.bucket, "goes with the stack",
             lambda t: t["Resources"]["Bucket"].pop("DeletionPolicy")),
    Mutation("a public policy", stores.bucket, "BlockPublicPolicy is off",
             lambda t: row(t, "Bucket")["PublicAccessBlockConfiguration"].pop("BlockPublicPolicy")),
    Mutation("other owners", stores.bucket, "other owners", drop("Bucket", "OwnershipControls")),
    Mutation("no encryption", stores.bucket, "encrypts", drop("Bucket", "BucketEncryption")),
    Mutation("versions", stores.bucket, "delete marker", put("Bucket", VersioningConfiguration={"Status": "Enabled"})),
    Mutation("unfinished uploads", stores.bucket, "unfinished uploads", drop("Bucket", "LifecycleConfiguration")),
    Mutation("everything expires", stores.bucket, "while something names them",
             lambda t: row(t, "Bucket")["LifecycleConfiguration"]["Rules"].append(
                 {"Status": "Enabled", "ExpirationInDays": 1})),
    Mutation("an open door", stores.bucket, "lets somebody in", statement("BucketPolicy", 2, Effect="Allow")),
    Mutation("no TLS", stores.bucket, "without TLS", without_statement("BucketPolicy", 0)),
    Mutation("TLS for objects only", stores.bucket, "without TLS",
             statement("BucketPolicy", 0, Resource=[{"Fn::Sub": "${Bucket.Arn}/*"}])),
    Mutation("overwriting", stores.bucket, "overwritten", without_statement("BucketPolicy", 1)),
    Mutation("the condition turned round", stores.bucket, "overwritten",
             statement("BucketPolicy", 1, Condition={"Null": {"s3:if-none-match": "false"}})),
    Mutation("parts refused too", stores.bucket, "overwritten",
             statement("BucketPolicy", 1, Condition={"Null": {"s3:if-none-match": "true"}})),
    Mutation("everyone deletes", stores.bucket, "others than the janitor", without_statement("BucketPolicy", 2)),
    Mutation("the API's role deletes", stores.bucket, "others than the janitor",
             statement("BucketPolicy", 2,
                 Condition={"ArnNotEquals": {"aws:PrincipalArn": {"Fn::GetAtt": ["ApiRole", "Arn"]}}})),
    Mutation("the table goes", stores.table, "goes with the stack",
             lambda t: t["Resources"]["Table"].update(DeletionPolicy="Delete")),
    Mutation("other keys", stores.table, "other keys",
             put("Table", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}])),
    Mutation("another time to live", stores.table, "what has expired",
             put("Table", TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True})),
    Mutation("provisioned", stores.table, "on demand", put("Table", BillingMode="PROVISIONED")),
    Mutation("unprotected", stores.table, "one request", drop("Table", "DeletionProtectionEnabled")),
    Mutation("no recovery", stores.table, "restored", drop("Table", "PointInTimeRecoverySpecification")),
    Mutation("an index", stores.table, "consistently", put("Table", GlobalSecondaryIndexes=[])),
    Mutation("an open queue", stores.queues, "encrypted", drop("CallQueue", "SqsManagedSseEnabled")),
    Mutation("a short visibility", stores.queues, "comes again while", put("RunQueue", VisibilityTimeout=900)),
    Mutation("whole batches again", stores.queues, "whole batch",
             lambda t: row(t, "WorkerFunction")["Events"]["Runs"]["Properties"].pop("FunctionResponseTypes")),
    Mutation("ten at once", stores.queues, "go back unopened",
             lambda t: row(t, "DirectFunction")["Events"]["Calls"]["Properties"].update(BatchSize=10)),
    Mutation("forever", stores.queues, "forever", drop("RunQueue", "RedrivePolicy")),
)  # fmt: skip

DOORS = (
    Mutation("no table", doors.environments, "JanitorFunction: lacks WORKROOM_TABLE",
             variable("JanitorFunction", "WORKROOM_TABLE")),
    Mutation("no queue", doors.environments, "lacks WORKROOM_QUEUE_URL",
             variable("DirectFunction", "WORKROOM_QUEUE_URL")),
    Mutation("a misspelt setting", doors.environments, "is no setting", variable("ApiFunction", "WORKROOM_TABEL", "x")),
    Mutation("a value out of range", doors.environments, "must be a whole number",
             variable("ApiFunction", "WORKROOM_RUN_MS", "soon")),
    Mutation("a local store", doors.environments, "of its own",
             variable("WorkerFunction", "WORKROOM_EXECUTOR", "local")),
    Mutation("a variable that the sandbox does not read", doors.environments, "does not know",
             variable("SandboxFunction", "WORKROOM_TABLE", "x")),
    Mutation("an engine that is none", doors.parameters, "other engines",
             parameter("DefaultModel", AllowedValues=["x"])),
    Mutation("a Turn without end", doors.parameters, "longer than a program", parameter("TurnRunMs", MaxValue=900_000)),
    Mutation("a key above 4 KB", doors.environments, "bytes of environment", parameter("JwtKey", MaxLength=4096)),
    Mutation("an answer after the gateway's end", doors.times, "gives up before",
             variable("ApiFunction", "WORKROOM_ANSWER_MS", "30000")),
    Mutation("Lambda ends first", doors.times, "gives up before", put("ApiFunction", Timeout=28)),
    Mutation("the wait takes all", doors.times, "no time to run",
             variable("ApiFunction", "WORKROOM_LOCK_WAIT_MS", "27000")),
    Mutation("an impatient gateway", doors.times, "gives up early", put("ApiIntegration", TimeoutInMillis=5000)),
    Mutation("an answer above 6 MB", doors.times, "larger than Lambda",
             variable("ApiFunction", "WORKROOM_ANSWER_BYTES", "6000000")),
    Mutation("a short executor", doors.times, "before the longest run", put("SandboxFunction", Timeout=60)),
    Mutation("a short worker", doors.times, "had to wait", put("WorkerFunction", Timeout=300)),
    Mutation("a function of an hour", doors.times, "900 s", put("StreamFunction", Timeout=3600)),
    Mutation("a long default", doors.times, "longer than", parameter("RunMs", Default=30000)),
    Mutation("a size without a share", doors.sizes, "without a program's share",
             parameter("ExecutorMemoryMiB", AllowedValues=["1769", "1024", "512"])),
    Mutation("all of the memory", doors.sizes, "too little",
             lambda t: t["Mappings"]["RunMemory"]["1769"].update(MiB="1769")),
    Mutation("a small disk", doors.sizes, "does not hold", put("SandboxFunction", EphemeralStorage={"Size": 512})),
    Mutation("no description", doors.parameters, "no description",
             lambda t: t["Parameters"]["RunMs"].pop("Description")),
    Mutation("no default", doors.parameters, "no default", lambda t: t["Parameters"]["RunMs"].pop("Default")),
    Mutation("an idle parameter", doors.parameters, "changes nothing",
             lambda t: t["Parameters"].update(Idle={"Type": "String", "Default": "", "Description": "x"})),
    Mutation("a scope that is none", doors.parameters, "other scopes",
             parameter("Isolation", AllowedValues=["user", "team"])),
    Mutation("built on the host", doors.builds, "host's packages",
             lambda t: t["Resources"]["ApiFunction"].pop("Metadata")),
    Mutation("another Python", doors.builds, "another Python", put("WorkerFunction", Runtime="python3.12")),
    Mutation("another processor", doors.builds, "another processor", put("WorkerFunction", Architectures=["x86_64"])),
    Mutation("no handler", doors.builds, "no handler", put("WorkerFunction", Handler="functions.worker.app.main")),
    Mutation("a function without a rule", doors.builds, "does not build it",
             lambda t: t["Resources"].update(MoreFunction=t["Resources"]["WorkerFunction"])),
    Mutation("an image from nowhere", doors.builds, "how its image",
             lambda t: t["Resources"]["SandboxFunction"].pop("Metadata")),
    Mutation("no address", doors.outputs, "is not told", lambda t: t["Outputs"].pop("StreamUrl")),
    Mutation("a command without the bucket", doors.outputs, "lacks WORKROOM_BUCKET",
             lambda t: t["Outputs"]["MakeFirstKey"].update(Value="workroom keys create")),
)  # fmt: skip

WATCHING = (
    Mutation("logs forever", watching.logs, "forever", drop("ApiLogs", "RetentionInDays")),
    Mutation("one log for two", watching.logs, "of its own",
             lambda t: row(t, "StreamFunction")["LoggingConfig"].update(LogGroup={"Ref": "ApiLogs"})),
    Mutation("plain text", watching.logs, "no JSON",
             lambda t: row(t, "ApiFunction")["LoggingConfig"].update(LogFormat="Text")),
    Mutation("metrics dropped", watching.logs, "drops metrics",
             lambda t: t["Mappings"]["PlatformLogLevel"]["error"].update(Level="ERROR")),
    Mutation("nobody is told", watching.alarms, "tells nobody", drop("ErrorsAlarm", "AlarmActions")),
    Mutation("rings at night", watching.alarms, "rings", put("ErrorsAlarm", TreatMissingData="breaching")),
    Mutation("a function without an alarm", watching.alarms, "SandboxFunction: no alarm on Errors",
             lambda t: row(t, "ErrorsAlarm")["Metrics"].pop()),
    Mutation("no throttles", watching.alarms, "no alarm on Throttles", lambda t: t["Resources"].pop("ThrottlesAlarm")),
    Mutation("a metric that is not measured", watching.alarms, "not measured",
             put("UnsettledWritesAlarm", MetricName="unsettled_age")),
    Mutation("an outcome that is none", watching.alarms, "no outcome",
             lambda t: row(t, "ExecutorFailuresAlarm")["Metrics"][1]["MetricStat"]["Metric"]["Dimensions"][0].update(
                 Value="error:x")),
    Mutation("no executor failures", watching.alarms, "no alarm on executor_failed",
             lambda t: t["Resources"].pop("ExecutorFailuresAlarm")),
    Mutation("no dead letters", watching.alarms, "ApproximateNumberOfMessagesVisible",
             lambda t: t["Resources"].pop("DeadLettersAlarm")),
    Mutation("a broken dashboard", watching.dashboard, "no JSON", put("Dashboard", DashboardBody={"Fn::Sub": "{"})),
    Mutation("an empty dashboard", watching.dashboard, "does not show",
             put("Dashboard", DashboardBody={"Fn::Sub": '{"widgets": []}'})),
    Mutation("a dashboard of nothing", watching.dashboard, "is not here",
             lambda t: row(t, "Dashboard").update(
                 DashboardBody={"Fn::Sub": row(t, "Dashboard")["DashboardBody"]["Fn::Sub"] + "${Gone}"})),
    Mutation("a dashboard of another metric", watching.dashboard, "run_ms_all is not measured",
             lambda t: row(t, "Dashboard")["DashboardBody"].update(
                 {"Fn::Sub": row(t, "Dashboard")["DashboardBody"]["Fn::Sub"].replace("run_ms_total", "run_ms_all")})),
    Mutation("a metric under another dimension", watching.alarms, "runs is not measured",
             lambda t: row(t, "ExecutorFailuresAlarm")["Metrics"][1]["MetricStat"]["Metric"].pop("Dimensions")),
    Mutation("no dashboard", watching.dashboard, "no dashboard", lambda t: t["Resources"].pop("Dashboard")),
)  # fmt: skip

ROUTES: tuple[tuple[str, str, Change], ...] = (
    ("an operation without a route", "POST /v1/exec: is served", lambda t: t["Resources"].pop("ExecRunRoute")),
    ("a route of nothing", "no route of the service", put("ExecRunRoute", RouteKey="POST /v1/run")),
    ("a catch-all", "catches", put("ExecRunRoute", RouteKey="$default")),
    ("any method", "catches", put("ExecRunRoute", RouteKey="ANY /v1/exec")),
    ("a path that ends at a slash", "is served and has no route",
     put("FilesDownloadRoute", RouteKey="GET /v1/exec/download/{session_id}/{file_id}")),
    ("a route to elsewhere", "leads elsewhere", put("ExecRunRoute", Target={"Fn::Sub": "integrations/${Other}"})),
    ("another format", "payload format", put("ApiIntegration", PayloadFormatVersion="1.0")),
    ("a named stage", "part of every path", put("HttpStage", StageName="prod")),
    ("fixed throttling", "throttling", put("HttpStage", DefaultRouteSettings={"ThrottlingRateLimit": 5})),
    ("paths in the log", "paths get into",
     lambda t: row(t, "HttpStage")["AccessLogSettings"].update(Format="$context.path $context.status")),
    ("fixed CORS", "CORS", put("HttpApi", CorsConfiguration={"AllowOrigins": ["*"]})),
)  # fmt: skip


@pytest.mark.parametrize("mutation", [*PLACEMENT, *STORES, *DOORS, *WATCHING], ids=lambda one: one.name)
def test_a_check_reports(template: Node, mutation: Mutation) -> None:
    mutation.change(template)
    said = mutation.check(template)
    assert any(mutation.said in line for line in said), said


@pytest.mark.parametrize(("name", "said", "change"), ROUTES, ids=[name for name, _, _ in ROUTES])
def test_the_check_of_routes_reports(template: Node, served: Served, name: str, said: str, change: Change) -> None:
    change(template)
    complaints = doors.routes(template, served)
    assert any(said in line for line in complaints), complaints
