"""Heavy stages as jobs on a cluster, wherever its jobs are taken.

`RAY_ADDRESS` decides: http… is the job endpoint of a running Ray cluster, kuberay://NAMESPACE a Kubernetes cluster
whose KubeRay operator makes a Ray cluster for each job. A stage says of itself that it is heavy (`@stage(heavy=True)`).
The launcher knows no stage by name: it writes a description of the stage, its parameters and inputs into the artifact
store (`run.json`), and the job reads that.

    description.py   run.json: written here, opened there; the code's version
    program.py       what the job runs: `python -m infra.cluster.jobs.program run.json`
    launch.py        the flow's side: attach or submit, follow, stop, try again after a failure of the cluster
    site.py          what a place that takes jobs can do, and the state of a job
    ray_endpoint.py  the job endpoint of a Ray cluster
    kuberay.py       RayJobs of KubeRay

Another kind of cluster is another file with a `JobSite`, and a branch in `job_site`.
"""

from __future__ import annotations

from infra.cluster.jobs.launch import run_as_job
from infra.cluster.jobs.site import EndpointLostError, JobSite, JobState

__all__ = ["EndpointLostError", "JobSite", "JobState", "job_site", "run_as_job"]


def job_site(address: str) -> JobSite:
    """Return the place that takes jobs at an address of RAY_ADDRESS.

    Raises:
        UserError: nothing answers at the address, or it does not accept our token.
    """
    # Ray's client takes a second to import: only those who submit jobs wait for it.
    if address.startswith("kuberay://"):
        from infra.cluster.jobs.kuberay import KubeRaySite

        return KubeRaySite.from_environment(address)
    from infra.cluster.jobs.ray_endpoint import RayEndpoint

    return RayEndpoint(address)
