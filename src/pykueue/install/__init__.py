"""What a cluster needs so that pykueue can work in it, as objects: definitions, rights, admission policies, the controller.

Invariant: pure functions of the Configuration; whoever prints or applies them is elsewhere.
"""
