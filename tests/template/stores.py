"""Checks of the table, the bucket, the queues and who may do what. Each gives its complaints."""

from __future__ import annotations

from tests.template.placement import PLACING
from tests.template.reading import (
    Node,
    allowed,
    functions,
    listed,
    of_type,
    role_of,
    role_statements,
    sandboxes,
    statements,
    text,
)

_READ_STATE = {("dynamodb:GetItem", "Table.Arn"), ("dynamodb:Query", "Table.Arn")}
_TRANSACT = {(f"dynamodb:{name}", "Table.Arn") for name in ("PutItem", "DeleteItem", "ConditionCheckItem")}
_READ_OBJECTS = {("s3:GetObject", "${Bucket.Arn}/*"), ("s3:ListBucket", "Bucket.Arn")}
_TRACE = {("xray:PutTraceSegments", "*"), ("xray:PutTelemetryRecords", "*")}
_BASE = _READ_STATE | _TRANSACT | _READ_OBJECTS | _TRACE
_RUN = {("lambda:InvokeFunction", "SandboxFunction.Arn"), ("s3:PutObject", "${Bucket.Arn}/*")}
_QUEUE = {("sqs:SendMessage", "RunQueue.Arn")}
_BUS = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/default"


def _takes(queue: str) -> set[tuple[str, str]]:
    actions = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility")
    return {(f"sqs:{action}", f"{queue}.Arn") for action in actions}


NEEDED = {
    "ApiFunction": _BASE | _RUN | _QUEUE,
    "StreamFunction": _BASE | _RUN | _QUEUE,
    "DirectFunction": _BASE | _RUN | _QUEUE | _takes("CallQueue") | {("sqs:SendMessage", "DeadLetters.Arn")},
    "WorkerFunction": _BASE | _RUN | _QUEUE | _takes("RunQueue") | {("events:PutEvents", _BUS)},
    "JanitorFunction": _BASE
    | _QUEUE
    | {
        ("dynamodb:BatchWriteItem", "Table.Arn"),
        ("s3:DeleteObject", "${Bucket.Arn}/*"),
        ("s3:PutObject", "${Bucket.Arn}/*"),
    },
    "SandboxFunction": {(action, "*") for action in PLACING},
}
"""What each function's code calls, beside its own log."""


def permissions(template: Node) -> list[str]:
    """Each role: what the code calls, on what it calls it on, and its own log group. Nothing more, nothing less."""
    found = []
    for name, row in functions(template).items():
        need = set(NEEDED.get(name, set()))
        if name not in sandboxes(template):
            logs = f"{text(row['LoggingConfig']['LogGroup'])}.Arn"
            need |= {("logs:CreateLogStream", logs), ("logs:PutLogEvents", logs)}
        have = allowed(template, name)
        found += [
            f"{name}: may {action} on {resource}, which nothing calls" for action, resource in sorted(have - need)
        ]
        found += [f"{name}: may not {action} on {resource}" for action, resource in sorted(need - have)]
        for one in role_statements(template, role_of(template, row)):
            if one["Effect"] == "Allow" and any("*" in action for action in listed(one["Action"])):
                found.append(f"{name}: a statement allows every action of a kind")
            if one["Action"] == "events:PutEvents" and "events:source" not in str(one.get("Condition")):
                found.append(f"{name}: may announce what is not Workroom's")
        trust = statements(role_of(template, row)["AssumeRolePolicyDocument"])
        if [one["Principal"] for one in trust] != [{"Service": "lambda.amazonaws.com"}]:
            found.append(f"{name}: its role can be taken by others than Lambda")
    return found


def bucket(template: Node) -> list[str]:
    """Private, TLS only, nothing overwritten, nothing deleted but by the janitor, kept when the stack goes."""
    resource = template["Resources"]["Bucket"]
    row = resource["Properties"]
    found = []
    if resource.get("DeletionPolicy") != "Retain" or resource.get("UpdateReplacePolicy") != "Retain":
        found.append("Bucket: goes with the stack")
    block = row.get("PublicAccessBlockConfiguration", {})
    switches = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    found += [f"Bucket: {switch} is off" for switch in switches if block.get(switch) is not True]
    if row.get("OwnershipControls") != {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}:
        found.append("Bucket: objects may have other owners")
    if "BucketEncryption" not in row:
        found.append("Bucket: does not say how it encrypts")
    if "VersioningConfiguration" in row:
        found.append("Bucket: has versions: a conditional put succeeds over a delete marker")
    rules = row.get("LifecycleConfiguration", {}).get("Rules", [])
    if not any("AbortIncompleteMultipartUpload" in rule and rule["Status"] == "Enabled" for rule in rules):
        found.append("Bucket: unfinished uploads stay")
    if any("ExpirationInDays" in rule and not rule.get("Prefix") for rule in rules):
        found.append("Bucket: objects go while something names them")
    policies = [of for of in of_type(template, "AWS::S3::BucketPolicy").values() if text(of["Bucket"]) == "Bucket"]
    stated = [one for policy in policies for one in statements(policy["PolicyDocument"])]
    found += ["Bucket: lets somebody in by its policy" for one in stated if one["Effect"] != "Deny"]
    whole = {"Bucket.Arn", "${Bucket.Arn}/*"}
    if not _denies(stated, {"s3:*"}, whole, {"Bool": {"aws:SecureTransport": "false"}}):
        found.append("Bucket: answers without TLS")
    unconditional = {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
    if not _denies(stated, {"s3:PutObject"}, {"${Bucket.Arn}/*"}, unconditional):
        found.append("Bucket: an object can be overwritten")
    others = {"ArnNotEquals": {"aws:PrincipalArn": role_arn(template, "JanitorFunction")}}
    if not _denies(stated, {"s3:DeleteObject", "s3:DeleteObjectVersion"}, {"${Bucket.Arn}/*"}, others):
        found.append("Bucket: others than the janitor may delete")
    return found


def role_arn(template: Node, function: str) -> Node:
    """The reference to a function's role."""
    reference: Node = functions(template)[function]["Role"]
    return reference


def _denies(stated: list[Node], actions: set[str], resources: set[str], condition: Node) -> bool:
    return any(
        one["Effect"] == "Deny"
        and one["Principal"] == "*"
        and set(listed(one["Action"])) == actions
        and {text(each) for each in listed(one["Resource"])} == resources
        and one.get("Condition") == condition
        for one in stated
    )


def table(template: Node) -> list[str]:
    """Keys and time to live as the adapter has them; kept, protected, restorable, paid by request."""
    resource = template["Resources"]["Table"]
    row = resource["Properties"]
    found = []
    if resource.get("DeletionPolicy") != "Retain" or resource.get("UpdateReplacePolicy") != "Retain":
        found.append("Table: goes with the stack")
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    if [(key["AttributeName"], key["KeyType"]) for key in row["KeySchema"]] != keys:
        found.append("Table: other keys than the adapter's")
    if {one["AttributeName"]: one["AttributeType"] for one in row["AttributeDefinitions"]} != {"pk": "S", "sk": "S"}:
        found.append("Table: keys of another type")
    if row.get("TimeToLiveSpecification") != {"AttributeName": "x", "Enabled": True}:
        found.append("Table: what has expired stays")
    if row.get("BillingMode") != "PAY_PER_REQUEST":
        found.append("Table: not on demand")
    if row.get("DeletionProtectionEnabled") is not True:
        found.append("Table: can be deleted by one request")
    if row.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled") is not True:
        found.append("Table: cannot be restored")
    found += ["Table: an index cannot be read consistently" for key in row if key.endswith("SecondaryIndexes")]
    return found


def queues(template: Node) -> list[str]:
    """Encrypted; a message is hidden for six times its function's time, comes again a few times, then is kept apart."""
    found = []
    all_queues = of_type(template, "AWS::SQS::Queue")
    for name, row in all_queues.items():
        if row.get("SqsManagedSseEnabled") is not True:
            found.append(f"{name}: is not encrypted")
    for name, function in functions(template).items():
        for event in function.get("Events", {}).values():
            if event["Type"] != "SQS":
                continue
            about = event["Properties"]
            queue = about["Queue"]["Fn::GetAtt"][0]
            row = all_queues[queue]
            if row.get("VisibilityTimeout", 30) < 6 * function["Timeout"]:
                found.append(f"{queue}: a message comes again while {name} works on it")
            if "ReportBatchItemFailures" not in about.get("FunctionResponseTypes", []):
                found.append(f"{name}: one failed message brings the whole batch back")
            if about.get("BatchSize") != 1:
                found.append(f"{queue}: messages behind a long one go back unopened until they count as failed")
            redrive = row.get("RedrivePolicy", {})
            if (
                not 1 < redrive.get("maxReceiveCount", 0) <= 10
                or text(redrive.get("deadLetterTargetArn", "")) != "DeadLetters.Arn"
            ):
                found.append(f"{queue}: a message that cannot be done comes forever")
    return found
