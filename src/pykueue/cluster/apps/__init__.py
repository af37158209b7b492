"""ReplicaSet, Deployment and StatefulSet: pods kept at a number, as far as Kueue's pod integrations need them."""
