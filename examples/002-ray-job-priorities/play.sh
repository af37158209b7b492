k() { kubectl "$@"; }

# Task 2: verify that the resources needed for the lab are created
kubectl apply -f kueue-resources.yaml
k get all -n kueue-system
k get all -n kuberay-operator
k get clusterqueue
k get localqueue
k get resourceflavors
k get workloadpriorityclass

# Task 3: run three rayjobs for DEV; one is Initializing while its image is pulled, two are Suspended
k create -f kubectl-files/ray-job.ps-dev-pytorch-distributed-training.yaml
first=$(k get rayjob -o name)
k create -f kubectl-files/ray-job.ps-dev-pytorch-distributed-training.yaml
k create -f kubectl-files/ray-job.ps-dev-pytorch-distributed-training.yaml
k wait --for=jsonpath='{.status.jobDeploymentStatus}'=Suspended $(k get rayjob -o name | grep -v $first) --timeout=60s
k get rayjob

# Then the first is Running
k wait --for=jsonpath='{.status.jobStatus}'=RUNNING $first --timeout=60s
k get rayjob

# Task 4: one job COMPLETE, one RUNNING and one still SUSPENDED
k wait --for=jsonpath='{.status.jobDeploymentStatus}'=Complete $first --timeout=60s
running() { k get rayjob -o jsonpath='{.items[?(@.status.jobStatus=="RUNNING")].metadata.name}'; }
until [ -n "$(running)" ]; do sleep 0.1; done
k get rayjob

# The PROD job is created: one job COMPLETE, two jobs SUSPENDED and one RUNNING
k create -f kubectl-files/ray-job.ps-prod-pytorch-distributed-training.yaml
prod=$(k get rayjob -l kueue.x-k8s.io/priority-class=prod-priority -o name)
k wait --for=jsonpath='{.status.jobStatus}'=RUNNING $prod --timeout=60s
k wait --for=jsonpath='{.status.jobDeploymentStatus}'=Suspended $(k get rayjob -o name | grep -v -e $first -e $prod) --timeout=60s
k get rayjob

# Task 5: clean up the cluster
k get all
k delete $(k get rayjob -o name)
