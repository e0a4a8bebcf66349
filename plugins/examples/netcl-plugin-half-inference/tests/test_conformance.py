"""Every installed op under the policy: in which dtype it is computed, and how precisely."""

from netcl_plugin_kit.testing import conformance

from netcl_plugin_half_inference.policies import FLOAT32, POLICY

TestConformance = conformance("netcl-plugin-half-inference")


def test_its_rules() -> None:
    assert {POLICY.rule(op, "operator") for op in FLOAT32} == {"keep"}
    assert POLICY.rule("gelu", "primitive") == POLICY.rule("softmax", "operator") == "allow"
