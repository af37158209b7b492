"""The training operator: PyTorchJob and its kin as one shape, what differs between them in a table."""
