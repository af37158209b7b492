"""Container runtimes behind one protocol, called by the kubelet.

`process` starts each container as a process of this machine (`ProcessRuntime.start`); `simulated`
only waits.
"""
