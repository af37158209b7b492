# 1. Kueue was installed with kueue-values.yaml: here, pykueue up --config kueue-values.yaml

# 2. ResourceFlavor, ClusterQueue and LocalQueue
kubectl apply -f namespace.yaml
kubectl apply -f resource-flavor.yaml
kubectl apply -f cluster-queue.yaml
kubectl apply -f local-queue.yaml
kubectl get clusterqueue cluster-queue-a -o jsonpath='{.spec.resourceGroups[0].coveredResources}'; echo

# 4. Labels must match: a pool that cannot make nodes with the flavor's label is told of
kubectl apply -f node-pool-without-label.yaml
kubectl wait --for=create event --field-selector involvedObject.kind=ResourceFlavor --timeout=60s >/dev/null
kubectl get events -A --field-selector involvedObject.kind=ResourceFlavor -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}'
kubectl apply -f node-pool.yaml

# Submit the PyTorchJob; it starts when its workload is admitted, all replicas or none
kubectl apply -f pytorch-job.yaml
kubectl wait --for=condition=Running pytorchjob/pytorch-dist-mnist -n team-a --timeout=60s
kubectl wait --for=condition=Ready pod --all -n team-a --timeout=60s
kubectl get workloads -n team-a
kubectl get pytorchjob pytorch-dist-mnist -n team-a
kubectl get pods -n team-a
kubectl get nodes

# A job of 8 GPUs does not fit beside it: none of its pods is made, and it waits
kubectl apply -f pytorch-job-large.yaml
kubectl wait --for=jsonpath='{.status.pendingWorkloads}'=1 clusterqueue/cluster-queue-a --timeout=60s
kubectl get workloads -n team-a
kubectl get pytorchjobs -n team-a
kubectl get pods -n team-a

# When the first is gone, all eight start
kubectl delete pytorchjob pytorch-dist-mnist -n team-a
kubectl wait --for=condition=Running pytorchjob/pytorch-dist-large -n team-a --timeout=60s
kubectl wait --for=condition=Ready pod --all -n team-a --timeout=60s
kubectl get pods -n team-a
