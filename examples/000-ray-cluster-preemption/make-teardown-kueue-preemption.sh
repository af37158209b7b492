kubectl delete rayclusters --all -n team-a
kubectl delete rayclusters --all -n team-b
kubectl delete -f team-a-local-queue.yaml -f team-b-local-queue.yaml
kubectl delete -f team-a-cq.yaml -f team-b-cq.yaml -f shared-cq.yaml
kubectl delete -f default-flavor.yaml -f gpu-flavor.yaml
kubectl delete -f workload-priorities.yaml
kubectl delete -f team-a-namespace.yaml -f team-b-namespace.yaml
