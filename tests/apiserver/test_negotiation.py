import pytest

from pykueue.api.errors import ApiError
from pykueue.apiserver.http import negotiation

KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "media", "transform"),
    [
        ("", "application/json", ""),
        ("*/*", "application/json", ""),
        (KUBECTL_GET, "application/json", "Table"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", ""),
        ("application/vnd.kubernetes.protobuf", "application/json", ""),
        ("application/yaml", "application/yaml", ""),
        ("application/json;as=Unheard;g=meta.k8s.io;v=v1,application/json", "application/json", ""),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/json",
            "PartialObjectMetadataList",
        ),
        ("application/json;q=0.5,application/yaml", "application/yaml", ""),
    ],
)
def test_the_first_form_we_speak_is_chosen(accept, media, transform):
    form = negotiation.form(accept)
    assert (form.media, form.transform) == (media, transform)


def test_a_review_has_no_table():
    with pytest.raises(ApiError):
        negotiation.check_plain("application/json;as=Table;v=v1;g=meta.k8s.io")
    negotiation.check_plain(KUBECTL_GET)
    negotiation.check_plain("")


@pytest.mark.parametrize("accept", ["text/html", "application/cbor", "application/json;as=Unheard;g=x;v=v1", ";;,;"])
def test_a_client_that_speaks_nothing_of_ours_gets_406(accept):
    with pytest.raises(ApiError) as refused:
        negotiation.form(accept)
    assert refused.value.code == 406


@pytest.mark.parametrize(
    ("accept", "version"),
    [(KUBECTL_DISCOVERY, "v2"), ("application/json", ""), (KUBECTL_DISCOVERY.partition(",")[2], "v2beta1")],
)
def test_aggregated_discovery_is_chosen_by_version(accept, version):
    assert negotiation.discovery_form(accept).discovery_version == version
