# Two workers: clusters of their own, on this machine
pykueue up --data-dir $HOME/worker1 --listen 127.0.0.1:0 --kubeconfig $HOME/worker1.yaml --runtime simulated --nodes nodes.yaml > /dev/null 2>&1 &
pykueue up --data-dir $HOME/worker2 --listen 127.0.0.1:0 --kubeconfig $HOME/worker2.yaml --runtime simulated --nodes nodes.yaml > /dev/null 2>&1 &
until test -f $HOME/worker1.yaml && test -f $HOME/worker2.yaml; do sleep 0.2; done
kubectl --kubeconfig $HOME/worker1.yaml apply -f worker.yaml
kubectl --kubeconfig $HOME/worker2.yaml apply -f worker.yaml

# The manager knows them by their kubeconfigs
kubectl create secret generic worker1-secret -n kueue-system --from-file=kubeconfig=$HOME/worker1.yaml
kubectl create secret generic worker2-secret -n kueue-system --from-file=kubeconfig=$HOME/worker2.yaml
kubectl apply -f manager.yaml
kubectl wait --for=condition=Active multikueueclusters --all --timeout=60s
kubectl wait --for=condition=Active admissioncheck/workers --timeout=60s

# Two jobs of three CPUs, one for each worker of four
kubectl apply -f first-job.yaml -f second-job.yaml
kubectl wait --for=jsonpath='{.status.ready}'=1 job/first job/second --timeout=60s
kubectl get pods
for worker in worker1 worker2; do kubectl --kubeconfig $HOME/$worker.yaml get jobs -o name; done | sort

# The third one takes the place of the first
kubectl apply -f third-job.yaml
kubectl wait --for=condition=Complete job/first --timeout=60s
kubectl wait --for=jsonpath='{.status.ready}'=1 job/third --timeout=60s
kubectl get jobs
for worker in worker1 worker2; do kubectl --kubeconfig $HOME/$worker.yaml get jobs -o name; done | sort

pykueue down --data-dir $HOME/worker1 > /dev/null
pykueue down --data-dir $HOME/worker2 > /dev/null
