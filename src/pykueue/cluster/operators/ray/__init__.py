"""The Ray operator: RayClusters, RayJobs and RayServices.

A RayCluster becomes head and worker pods; a RayJob a RayCluster and a Job that submits to it.
Names, labels, statuses and events equal KubeRay's. With the process runtime the pods start a real
Ray.
"""
