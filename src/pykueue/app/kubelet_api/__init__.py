"""What a kubelet serves, as part of the embedded API: logs, exec, attach, port-forward, metrics.

Registered by `app.components` when `pykueue up` runs pods.
"""
