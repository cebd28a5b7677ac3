"""Checks of the functions: tenancy, snapshots, aliases, the sandbox's role and network. Each gives its complaints."""

from __future__ import annotations

from tests.template.reading import (
    Node,
    allowed,
    functions,
    listed,
    nodes,
    of_type,
    references,
    role_of,
    role_statements,
    sandboxes,
    statements,
    text,
)

PLACING = {
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
}
"""What Lambda needs a function's role for, to place it in subnets; nothing else is the sandbox's."""

_NOT_FOR_TENANTS = ("FunctionUrlConfig", "SnapStart", "ProvisionedConcurrencyConfig", "AutoPublishAlias")
_HTTP_EVENTS = ("HttpApi", "Api")


def tenancy(template: Node) -> list[str]:
    """The isolation stands on the sandbox, with the one value there is, and beside nothing that AWS refuses with it."""
    found = []
    for name, row in functions(template).items():
        config = row.get("TenancyConfig")
        if name not in sandboxes(template):
            found += [f"{name}: runs no program and has a TenancyConfig"] if config is not None else []
            continue
        if config != {"TenantIsolationMode": "PER_TENANT"}:
            found.append(f"{name}: TenantIsolationMode must be PER_TENANT")
        found += [f"{name}: {key} cannot be with tenant isolation" for key in _NOT_FOR_TENANTS if key in row]
        if row.get("Events"):
            found.append(f"{name}: an event source cannot give a tenant")
        routed = [kind for kind in ("Integration", "EventSourceMapping") if name in _invokers(template, kind)]
        found += [f"{name}: reached by an {kind}, which cannot give a tenant" for kind in routed]
    if len(sandboxes(template)) != 1:
        found.append("there is not one sandbox")
    return found


def _invokers(template: Node, kind: str) -> set[str]:
    resources = template["Resources"].values()
    return set().union(*(references(row.get("Properties")) for row in resources if row["Type"].endswith(kind)))


def snapshots(template: Node) -> list[str]:
    """SnapStart: no image, no adapter, only with a published alias, which is what the HTTP API calls."""
    found = []
    with_snapshot = {name: row for name, row in functions(template).items() if "SnapStart" in row}
    for name, row in with_snapshot.items():
        if row.get("PackageType") == "Image":
            found.append(f"{name}: SnapStart does not support images")
        if row["SnapStart"] != {"ApplyOn": "PublishedVersions"} or "AutoPublishAlias" not in row:
            found.append(f"{name}: SnapStart works on published versions only, which need an alias")
        if row.get("EphemeralStorage", {}).get("Size", 512) > 512:
            found.append(f"{name}: SnapStart takes 512 MB of /tmp at most")
        if "AWS_LAMBDA_EXEC_WRAPPER" in row["Environment"]["Variables"]:
            found.append(f"{name}: a server that was started before the snapshot would be every environment's")
    for name, row in of_type(template, "AWS::ApiGatewayV2::Integration").items():
        target = text(row["IntegrationUri"])
        if target not in {f"{function}.Alias" for function in with_snapshot}:
            found.append(f"{name}: calls {target}, not the published alias of a function with SnapStart")
        granted = [
            of
            for of in of_type(template, "AWS::Lambda::Permission").values()
            if of["FunctionName"] == row["IntegrationUri"]
        ]
        if not any(of["Principal"] == "apigateway.amazonaws.com" and "SourceArn" in of for of in granted):
            found.append(f"{name}: the API may not call {target}")
    for name, row in functions(template).items():
        events = [event["Type"] for event in row.get("Events", {}).values()]
        if sum(event in _HTTP_EVENTS for event in events) > 20:
            found.append(f"{name}: a permission for each route does not fit into a function's policy of 20 KB")
    return found


def versions(template: Node) -> list[str]:
    """Each parameter that an aliased function has is in its version's description, else the alias keeps the old value.

    SAM makes another version when the text of the function changes, which a parameter's value does not.
    """
    found = []
    for name, row in functions(template).items():
        if "AutoPublishAlias" not in row:
            continue
        if row.get("AutoPublishAliasAllProperties") is not True:
            found.append(f"{name}: only its code makes a new version")
        named = references(row.get("VersionDescription"))
        used = references({key: value for key, value in row.items() if key != "VersionDescription"})
        parameters = set(template["Parameters"])
        too_long = {key for key in parameters if template["Parameters"][key].get("MaxLength", 0) > 256}
        found += [
            f"{name}: {key} changes without a new version" for key in sorted((used & parameters) - too_long - named)
        ]
        # A description that changes alone is an error: there is nothing to publish.
        found += [f"{name}: {key} makes a version of an unchanged function" for key in sorted(named - used)]
        length = sum(_longest(template["Parameters"][key]) + 1 for key in named)
        found += [f"{name}: its version's description may have {length} characters"] if length > 256 else []
    return found


def _longest(parameter: Node) -> int:
    if "AllowedValues" in parameter:
        return max(len(str(value)) for value in parameter["AllowedValues"])
    if parameter["Type"] == "Number":
        return len(str(parameter.get("MaxValue", 10**15)))
    return int(parameter.get("MaxLength", 32 if "{1,32}" in parameter.get("AllowedPattern", "") else 4096))


def sandbox_role(template: Node) -> list[str]:
    """The sandbox's role lets Lambda place the function, and refuses everything to what runs in it."""
    found = []
    for name, row in sandboxes(template).items():
        role = role_of(template, row)
        others = [other for other, of in functions(template).items() if other != name and of["Role"] == row["Role"]]
        found += [f"{name}: shares its role with {other}" for other in others]
        extra = sorted({action for action, _ in allowed(template, name)} - PLACING)
        found += [f"{name}: its role allows {action}" for action in extra]
        denies = [one for one in role_statements(template, role) if one["Effect"] == "Deny"]
        everything = {"Action": "*", "Resource": "*", "Condition": {"Null": {"lambda:SourceFunctionArn": "false"}}}
        if not any(everything.items() <= one.items() for one in denies):
            found.append(f"{name}: what runs in it may use its role")
        if role.get("ManagedPolicyArns") or row.get("Policies"):
            found.append(f"{name}: has policies that are not its own")
        secret = [key for key, value in row["Environment"]["Variables"].items() if references(value)]
        found += [f"{name}: its environment names something of the deployment in {key}" for key in secret]
        if "LoggingConfig" in row or row.get("Tracing", "PassThrough") != "PassThrough":
            found.append(f"{name}: writes logs or traces, which its role does not allow")
    return found


def network(template: Node) -> list[str]:
    """The sandbox's subnets: nothing in, and out to signed addresses of our bucket only; no name but the bucket's."""
    found = []
    vpcs = {text(row["VpcId"]) for row in of_type(template, "AWS::EC2::Subnet").values()}
    for name, row in sandboxes(template).items():
        config = row.get("VpcConfig", {})
        subnets = {text(one) for one in config.get("SubnetIds", [])}
        if len(subnets) < 2 or not subnets <= set(of_type(template, "AWS::EC2::Subnet")):
            found.append(f"{name}: not in two subnets of this template")
        zones = {str(template["Resources"][one]["Properties"]["AvailabilityZone"]) for one in subnets}
        found += [f"{name}: its subnets are in one zone"] if len(zones) < len(subnets) else []
        tables = of_type(template, "AWS::EC2::SubnetRouteTableAssociation").values()
        if not subnets <= {text(one["SubnetId"]) for one in tables}:
            found.append(f"{name}: a subnet has the VPC's main route table")
        groups = [text(one) for one in config.get("SecurityGroupIds", [])]
        found += [f"{name}: no security group of its own"] if len(groups) != 1 else []
        for group in groups:
            found += _group(group, template["Resources"][group]["Properties"])
    ways = (
        "Route",
        "InternetGateway",
        "NatGateway",
        "EgressOnlyInternetGateway",
        "VPCPeeringConnection",
        "TransitGatewayAttachment",
        "VPCGatewayAttachment",
    )
    for name, row in template["Resources"].items():
        if row["Type"] in {f"AWS::EC2::{way}" for way in ways}:
            found.append(f"{name}: a way out of the subnets")
        if row["Type"] == "AWS::EC2::Subnet" and row["Properties"].get("MapPublicIpOnLaunch") is not False:
            found.append(f"{name}: gives public addresses")
    return found + _endpoints(template) + _names(template, vpcs)


def _group(name: str, group: Node) -> list[str]:
    found = [f"{name}: lets something in"] if group.get("SecurityGroupIngress") else []
    if not group.get("SecurityGroupEgress"):
        return [*found, f"{name}: without an egress rule everything goes out"]
    for rule in nodes(group["SecurityGroupEgress"]):
        if "IpProtocol" in rule and (rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort")) != ("tcp", 443, 443):
            found.append(f"{name}: lets more than HTTPS out")
    choices = [one["Fn::If"] for one in group["SecurityGroupEgress"] if "Fn::If" in one]
    if [text(choice[0]) for choice in choices] != ["HasPrefixList"] or "DestinationPrefixListId" not in choices[0][1]:
        found.append(f"{name}: is not limited to the prefix list where one is given")
    return found


def _endpoints(template: Node) -> list[str]:
    found = []
    endpoints = of_type(template, "AWS::EC2::VPCEndpoint")
    for name, row in endpoints.items():
        if row["VpcEndpointType"] != "Gateway" or not text(row["ServiceName"]).endswith(".s3"):
            found.append(f"{name}: an endpoint of something other than S3")
        if "PolicyDocument" not in row:
            found.append(f"{name}: without a policy every bucket can be reached")
            continue
        for one in statements(row["PolicyDocument"]):
            actions, resources = listed(one["Action"]), [text(each) for each in listed(one["Resource"])]
            if not set(actions) <= {"s3:GetObject", "s3:PutObject"} or resources != ["${Bucket.Arn}/*"]:
                found.append(f"{name}: lets more through than objects of our bucket")
            equal = one.get("Condition", {}).get("StringEquals", {})
            if equal.get("s3:authType") != "REST-QUERY-STRING" or "aws:PrincipalAccount" not in equal:
                found.append(f"{name}: lets more through than our grants")
    return found if endpoints else ["there is no endpoint: the sandbox could not read a grant"]


def _names(template: Node, vpcs: set[str]) -> list[str]:
    """A resolver that answers for any domain is a way out, whatever the routes are."""
    lists = of_type(template, "AWS::Route53Resolver::FirewallDomainList")
    for association in of_type(template, "AWS::Route53Resolver::FirewallRuleGroupAssociation").values():
        group = template["Resources"][text(association["FirewallRuleGroupId"])]["Properties"]
        rules = sorted(group["FirewallRules"], key=lambda rule: int(rule["Priority"]))
        allows = [rule for rule in rules if rule["Action"] != "BLOCK"]
        domains = {text(domain) for rule in allows for domain in lists[text(rule["FirewallDomainListId"])]["Domains"]}
        closed = bool(rules) and rules[-1]["Action"] == "BLOCK"
        closed = closed and lists[text(rules[-1]["FirewallDomainListId"])]["Domains"] == ["*"]
        if (
            text(association["VpcId"]) in vpcs
            and closed
            and domains == {"Bucket.DomainName", "Bucket.RegionalDomainName"}
        ):
            return []
    return ["the subnets' resolver answers for more than the bucket's names"]
