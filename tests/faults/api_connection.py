"""One connection to a server, kept open, for tests in which a new one may not be possible."""

import http.client
import json
import ssl
import urllib.parse

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class ApiConnection:
    def __init__(self, server):
        parts = urllib.parse.urlsplit(server.url)
        self._token = server.token
        self._connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=60, context=ssl._create_unverified_context()
        )

    def request(self, method, path, body=None, *, media="application/json"):
        """The status code and the decoded body."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data.startswith(b"{") else data.decode()

    def create(self, name, size=0):
        return self.request("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "x" * size}})

    def names(self):
        code, body = self.request("GET", CONFIG_MAPS)
        assert code == 200, body
        return {item["metadata"]["name"] for item in body["items"]} - {"kube-root-ca.crt"}

    def close(self):
        self._connection.close()
