"""The ReplicaSet, Deployment and StatefulSet controllers, as far as Kueue's integrations need."""
