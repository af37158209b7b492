oc() { [ "$1" != adm ] || shift; kubectl "$@"; }

# 3. [optional] taint the GPU node
oc adm taint nodes gpu-node nvidia.com/gpu=Exists:NoSchedule

# 5. Run the setup script
sh make-setup-kueue-preemption.sh

# 1. Create team B's Ray cluster, and wait until it runs
oc create -f team-b-ray-cluster-dev.yaml
oc wait --for=jsonpath='{.status.state}'=ready raycluster/raycluster-dev -n team-b --timeout=60s
oc get rayclusters -A
oc get po -n team-b

# 2. Create team A's Ray cluster
oc create -f team-a-ray-cluster-prod.yaml

# 3. Team B's is suspended, and team A's runs because it preempted
oc wait --for=jsonpath='{.status.state}'=ready raycluster/raycluster-prod -n team-a --timeout=60s
oc wait --for=jsonpath='{.status.state}'=suspended raycluster/raycluster-dev -n team-b --timeout=60s
oc get rayclusters -A

# To delete this example
sh make-teardown-kueue-preemption.sh
