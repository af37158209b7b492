"""What a kubelet serves, answered by the embedded API: logs, exec, attach, port-forward, metrics."""
