"""Every job framework by its name in `integrations.frameworks`.

A new one is a module and a line here.
"""

from collections.abc import Mapping

from pykueue.translate.jobs import app_wrapper, batch_job, job_set, kubeflow, ray, spark_application, train_job
from pykueue.translate.jobs.framework import JobFramework

FRAMEWORKS: Mapping[str, JobFramework] = {
    framework.name: framework
    for framework in (
        batch_job.FRAMEWORK,
        job_set.FRAMEWORK,
        *kubeflow.FRAMEWORKS,
        *ray.FRAMEWORKS,
        app_wrapper.FRAMEWORK,
        spark_application.FRAMEWORK,
        train_job.FRAMEWORK,
    )
}
