"""The Kubeflow operators: PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob and MPIJob."""
