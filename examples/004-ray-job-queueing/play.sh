# Create a GPU node pool
kubectl apply -f gpu-node-pool.yaml

# Create the Kueue resources
kubectl apply -f kueue-resources.yaml

# Deploy a RayJob
kubectl create -f short/ray-job.pytorch-distributed-training.yaml
job=$(kubectl get rayjob -o jsonpath='{.items[0].metadata.name}')
kubectl wait --for=jsonpath='{.status.jobDeploymentStatus}'=Running rayjob/$job --timeout=60s
kubectl wait --for=condition=Ready pod --all --timeout=60s
kubectl get pod
kubectl wait --for=jsonpath='{.status.jobDeploymentStatus}'=Complete rayjob/$job --timeout=60s
kubectl get rayjobs.ray.io $job -o jsonpath='{.status.jobStatus}'; echo
kubectl get rayjobs.ray.io $job -o jsonpath='{.status.jobDeploymentStatus}'; echo
kubectl delete rayjob $job

# Queuing multiple RayJob resources
kubectl create -f ray-job.pytorch-distributed-training.yaml
kubectl create -f ray-job.pytorch-distributed-training.yaml
kubectl create -f ray-job.pytorch-distributed-training.yaml
kubectl wait --for=jsonpath='{.status.pendingWorkloads}'=2 clusterqueue/cluster-queue --timeout=60s
kubectl wait --for=jsonpath='{.status.admittedWorkloads}'=1 clusterqueue/cluster-queue --timeout=60s
kubectl get clusterqueue
kubectl get clusterqueue cluster-queue -o yaml | sed -n '/^status:/,$p'

# Deploy a RayJob with higher priority
kubectl create -f prod/ray-job.pytorch-distributed-training.yaml
prod=$(kubectl get rayjob -l kueue.x-k8s.io/priority-class=prod-priority -o name)
kubectl wait --for=jsonpath='{.status.jobDeploymentStatus}'=Running $prod --timeout=60s
kubectl wait --for=jsonpath='{.status.pendingWorkloads}'=3 clusterqueue/cluster-queue --timeout=60s
kubectl wait --for=condition=Ready pod --all --timeout=60s
kubectl get pods

# Increasing cluster quotas: what waits is admitted, and the autoscaler adds nodes
kubectl create -f ray-job.pytorch-distributed-training.yaml
kubectl create -f ray-job.pytorch-distributed-training.yaml
kubectl get nodes
kubectl apply -f cluster-queue-with-more-quota.yaml
kubectl wait --for=jsonpath='{.status.jobDeploymentStatus}'=Running rayjob --all --timeout=60s
kubectl wait --for=condition=Ready pod --all --timeout=60s
kubectl get pods
kubectl get nodes

# The status that the document prints is that of a job and a queue with 8 CPUs, 20 GB and 2 GPUs
kubectl delete rayjob --all
kubectl apply -f kueue-resources-for-two-gpus.yaml
kubectl create -f large/ray-job.pytorch-distributed-training.yaml
kubectl create -f large/ray-job.pytorch-distributed-training.yaml
kubectl create -f large/ray-job.pytorch-distributed-training.yaml
kubectl wait --for=jsonpath='{.status.pendingWorkloads}'=2 clusterqueue/cluster-queue --timeout=60s
kubectl wait --for=jsonpath='{.status.admittedWorkloads}'=1 clusterqueue/cluster-queue --timeout=60s
kubectl get clusterqueue cluster-queue -o yaml | sed -n '/^status:/,$p'
