"""The rules of `pykueue lint`, one module for each subject. `lint.checks` lists them."""
