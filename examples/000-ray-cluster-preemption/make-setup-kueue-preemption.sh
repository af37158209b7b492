# Warning: deletes every cluster queue and resource flavor of the cluster first.
kubectl delete clusterqueues --all
kubectl delete resourceflavors --all
kubectl apply -f team-a-namespace.yaml -f team-b-namespace.yaml
kubectl apply -f default-flavor.yaml -f gpu-flavor.yaml
kubectl apply -f team-a-cq.yaml -f team-b-cq.yaml -f shared-cq.yaml
kubectl apply -f team-a-local-queue.yaml -f team-b-local-queue.yaml
kubectl apply -f workload-priorities.yaml
