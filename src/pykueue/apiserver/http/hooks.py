"""How other packages extend the API: subresources such as `pods/log`, whole groups, and paths.

A package registers a handler. Before the application calls it, it authenticates the request,
checks that path and method are those of the resource, and authorizes the access. The handler
returns an `HttpResponse` or raises `ApiError`.
"""

from dataclasses import dataclass

from pykueue.apiserver.http.messages import Handler
from pykueue.apiserver.http.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraResource:
    """A resource in discovery. `name` may be a subresource (`clusterqueues/pendingworkloads`)."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    kind_group: str = ""
    """The API group of `kind`; "" means the group that serves it."""
    kind_version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, str]:
        """The plural, and the subresource or ""."""
        plural, _, subresource = self.name.partition("/")
        return plural, subresource


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraGroup:
    """One version of an API group whose objects are computed by `handler`, not stored."""

    group: str
    version: str
    resources: tuple[ExtraResource, ...]
    handler: Handler


class Hooks:
    """The registry of added handlers."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], ExtraGroup] = {}
        self.subresources: dict[tuple[str, str, str], tuple[ExtraResource, Handler]] = {}
        self.pages: dict[str, Handler] = {}
        self.public_pages: set[str] = set()
        self.posted_pages: dict[str, Handler] = {}
        self.generation = 0

    def add_group(self, group: ExtraGroup) -> None:
        self.groups[group.group, group.version] = group
        self.generation += 1

    def add_subresource(self, group: str, resource: ExtraResource, handler: Handler) -> None:
        """Serve `resource.name` (for example `pods/log`) below a stored kind."""
        plural, subresource = resource.path
        assert subresource, "a subresource is named plural/subresource"
        self.subresources[group, plural, subresource] = (resource, handler)
        self.generation += 1

    def add_page(self, path: str, handler: Handler, *, is_public: bool = False, method: str = "GET") -> None:
        """Serve a non-resource path such as `/metrics`. A public one needs no token."""
        (self.pages if method == "GET" else self.posted_pages)[path] = handler
        if is_public:
            self.public_pages.add(path)

    def find(self, route: Route) -> tuple[ExtraResource, Handler] | None:
        """The added resource of a route, by group, version and name alone."""
        if subresource := self.subresources.get((route.group, route.plural, route.subresource)):
            return subresource
        extra = self.groups.get((route.group, route.version))
        if extra is None:
            return None
        path = (route.plural, route.subresource)
        return next(((entry, extra.handler) for entry in extra.resources if entry.path == path), None)
