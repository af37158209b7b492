"""Runs variants as tasks of a Ray cluster (`pip install pykueue[ray]`)."""

from collections.abc import Iterator, Sequence

from pykueue.simulate import planning
from pykueue.simulate.planning import SimulationPlan, VariantResult
from pykueue.simulate.sources.rows import SourceError
from pykueue.simulate.what_if import Variant


def run_all(plan: SimulationPlan, variants: Sequence[Variant], address: str) -> Iterator[VariantResult]:
    """The results in the order of the variants.

    `address` is local, auto, HOST:PORT of a cluster that this machine is part of, or
    ray://HOST:PORT.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise SourceError("Ray is not installed", file="--ray", remedy="`pip install pykueue[ray]`") from None
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise SourceError(f"no Ray cluster at {address}: {error}", file="--ray", remedy=_remedy(address)) from None
    try:
        shared = ray.put(plan)
        run_one = ray.remote(_run_one)
        references = [run_one.remote(shared, variant) for variant in variants]
        for reference in references:
            yield ray.get(reference)
    finally:
        ray.shutdown()


def _remedy(address: str) -> str:
    if not address.startswith("ray://"):
        return "Write --ray local, --ray auto, or --ray ray://HOST:10001."
    return (
        "Both sides need the same versions of Ray and Python, and the same RAY_AUTH_MODE and token: a client without "
        "them times out. On a machine of the cluster, --ray auto needs no client server."
    )


def _run_one(plan: SimulationPlan, variant: Variant) -> VariantResult:
    return planning.compact(variant.name, planning.run(plan, variant))
