# Team namespaces, flavors, queues and priorities
kubectl apply -f team-a-namespace.yaml -f team-b-namespace.yaml
kubectl apply -f default-flavor.yaml -f gpu-flavor.yaml
kubectl apply -f team-a-cluster-queue.yaml -f team-b-cluster-queue.yaml -f shared-cluster-queue.yaml
kubectl apply -f team-a-local-queue.yaml -f team-b-local-queue.yaml
kubectl apply -f priorities.yaml

# Team B's job starts running, consuming available CPU resources
kubectl apply -f team-b-job.yaml
kubectl wait --for=jsonpath='{.status.ready}'=1 job/team-b-job -n team-b --timeout=60s
kubectl get jobs -A
kubectl get workloads -A

# Team A's job preempts it
kubectl apply -f team-a-job.yaml
kubectl wait --for=jsonpath='{.status.ready}'=1 job/team-a-job -n team-a --timeout=60s
kubectl wait --for=jsonpath='{.spec.suspend}'=true job/team-b-job -n team-b --timeout=60s
kubectl get jobs -A
kubectl get workloads -A
kubectl wait --for=jsonpath='{.status.admittedWorkloads}'=1 clusterqueue/team-a-cq --timeout=60s
kubectl wait --for=jsonpath='{.status.pendingWorkloads}'=1 clusterqueue/team-b-cq --timeout=60s
kubectl get clusterqueues
kubectl get workloads -n team-b -o jsonpath='{range .items[0].status.conditions[*]}{.type}={.status} {.reason}{"\n"}{end}'

# When team A's job is gone, team B's comes back
kubectl delete job team-a-job -n team-a
kubectl wait --for=jsonpath='{.status.ready}'=1 job/team-b-job -n team-b --timeout=60s
kubectl get jobs -A
