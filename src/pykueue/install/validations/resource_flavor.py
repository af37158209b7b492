"""ResourceFlavor. In Python: `api.rules.resource_flavor`."""

from pykueue.api.rules import resource_flavor
from pykueue.install.validations import cel
from pykueue.install.validations.table import Table, Validation


def of_resource_flavors() -> Table:
    return Table(validations=tuple(_validations()))


def _validations() -> list[Validation]:
    taints, labels = "object.spec.nodeTaints", "object.spec.nodeLabels"
    tolerations = "object.spec.tolerations"
    value = cel.optional("t.value", cel.is_label_value("t.value"))
    twice = f"size({taints}.filter(x, x.key == t.key && x.effect == t.effect)) == 1"
    key = cel.is_label_key("t.key")
    return [
        Validation(
            when=f"has(object.spec) && has({labels})",
            cel=cel.are_labels(labels),
            message="spec.nodeLabels must be valid labels",
        ),
        Validation(
            when=f"has(object.spec) && has({taints})",
            cel=f"{taints}.all(t, {key} && {value})",
            message="spec.nodeTaints must have valid keys and values",
        ),
        Validation(
            when=f"has(object.spec) && has({taints})",
            cel=f"{taints}.all(t, {twice})",
            message=f"spec.nodeTaints: {resource_flavor.DUPLICATE_TAINTS}",
        ),
        Validation(
            when=f"has(object.spec) && has({tolerations})",
            cel=cel.are_toleration_keys(tolerations),
            message="spec.tolerations must have valid keys",
        ),
    ]
