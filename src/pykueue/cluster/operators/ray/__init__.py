"""The Ray operator: RayClusters become head and worker pods, RayJobs a RayCluster and a Job that submits to it.

Names, labels, statuses and events are KubeRay's. With the process runtime the pods start a real Ray.
"""
