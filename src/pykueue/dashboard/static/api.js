// Requests to the Kubernetes API with the token of the user. The token is kept for this tab only.

const KEY = "pykueue-token";

export const session = {
  get token() { return sessionStorage.getItem(KEY) || ""; },
  set token(token) { token ? sessionStorage.setItem(KEY, token) : sessionStorage.removeItem(KEY); },
};

export class ApiError extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

export async function open(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (session.token) headers.Authorization = `Bearer ${session.token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  if (!response.ok) {
    let message = `The server answered ${response.status}.`;
    try { message = (await response.json()).message || message; } catch { /* no JSON */ }
    throw new ApiError(response.status, message);
  }
  return response;
}

export async function call(method, path, body, type = "application/json") {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = type;
  }
  return (await open(path, options)).json();
}

export const get = (path) => call("GET", path);
export const patch = (path, body) => call("PATCH", path, body, "application/merge-patch+json");

// The first use of the code in the address logs in; the code leaves the address at once.
export async function redeemCode() {
  const match = /^#code=([\w-]+)$/.exec(location.hash);
  if (!match) return "";
  history.replaceState(null, "", location.pathname + "#/cluster");
  try {
    session.token = (await call("POST", "/dashboard/login", { code: match[1] })).token;
    return "";
  } catch (error) {
    return session.token ? "" : error.message;
  }
}

// Lines of a stream, as they arrive.
export async function* lines(path, signal) {
  const reader = (await open(path, { signal })).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      let from = 0, end;
      while ((end = rest.indexOf("\n", from)) >= 0) {
        yield rest.slice(from, end);
        from = end + 1;
      }
      rest = rest.slice(from);
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

const rights = new Map();
setInterval(() => rights.clear(), 60000);

// Whether the user may do this, asked once a minute.
export function may(verb, group, resource, namespace = "") {
  const key = [verb, group, resource, namespace].join(" ");
  if (!rights.has(key)) {
    const resourceAttributes = { verb, group, resource, namespace };
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
    rights.set(key, call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
      .then((answer) => Boolean(answer.status && answer.status.allowed), () => false));
  }
  return rights.get(key);
}

const KUEUE = "/apis/kueue.x-k8s.io/v1beta2";
export const paths = {
  workload: (namespace, name) => `${KUEUE}/namespaces/${namespace}/workloads/${name}`,
  clusterQueue: (name) => `${KUEUE}/clusterqueues/${name}`,
  localQueue: (namespace, name) => `${KUEUE}/namespaces/${namespace}/localqueues/${name}`,
  priorityClasses: () => `${KUEUE}/workloadpriorityclasses`,
  explanation: (namespace, name, kind) =>
    `/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/${namespace}/explanations/${name}?kind=${kind.toLowerCase()}&estimatedStart=true`,
  pending: (name) => `/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/${name}/pendingworkloads?limit=20&estimatedStart=true`,
  events: (namespace, name) =>
    `/apis/events.k8s.io/v1/namespaces/${namespace}/events?fieldSelector=${encodeURIComponent(`regarding.name=${name}`)}`,
  pods: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  jobs: (namespace) => `/apis/batch/v1/namespaces/${namespace}/jobs`,
  log: (namespace, pod) => `/api/v1/namespaces/${namespace}/pods/${pod}/log?follow=true&tailLines=500`,
  use: (namespace, pod) => `/apis/metrics.k8s.io/v1beta1/namespaces/${namespace}/pods/${pod}`,
};

// The path of a job of any kind, from the owner reference of its workload.
export function ownerPath(namespace, owner) {
  const plural = { raycluster: "rayclusters" }[owner.kind.toLowerCase()] || `${owner.kind.toLowerCase()}s`;
  const prefix = owner.apiVersion.includes("/") ? `/apis/${owner.apiVersion}` : `/api/${owner.apiVersion}`;
  return `${prefix}/namespaces/${namespace}/${plural}/${owner.name}`;
}
