"""The web page of `pykueue up` and `pykueue controller`: what is queued, who uses what, and why.

`rows` makes a short row of each object, `feed` keeps the rows of a cluster, `page_stream` sends
those that a user may list to one open page, and again when they change. Everything else that the
page shows or does is a request to the Kubernetes API with the user's own token. `static/` is the
page; `static/vendor/` has its libraries, as their authors publish them.

**Invariant:** a page receives no row of an object that its user may not list
(`tests/dashboard/test_page_stream.py`), and its files load nothing from another server
(`tests/dashboard/test_static_files.py`).
"""
