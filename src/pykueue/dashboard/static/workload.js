// One workload: its story, why it waits, its pods, their logs and their resource use.

import { F, tables, useClock, useTables } from "./store.js";
import { call, get, lines, ownerPath, patch, paths } from "./api.js";
import { Action, Card, Dialog, Empty, State, amount, clockTime, count, duration, html, link, requestText, shortName, stamp, startText, useEffect, useMay, useRef, useState } from "./ui.js";
import { elapsed } from "./workloads.js";

const KUEUE = "kueue.x-k8s.io";
const PRIORITY_LABEL = "kueue.x-k8s.io/priority-class";

export function Workload({ namespace, name }) {
  useTables("workloads");
  useClock(1);
  const row = tables.workloads.get(`${namespace}/${name}`);
  const details = useDetails(namespace, name, row);
  if (!row && !details.object) {
    return html`<${Card}><${Empty} title=${details.error ? `Workload ${namespace}/${name}` : "Loading"}>${details.error || ""} <a href="#/workloads">All workloads</a><//><//>`;
  }
  const job = row ? row[F.job] || name : name;
  return html`<${Card} title=${html`<span class="muted">${row ? row[F.jobKind] : ""}</span> ${job}`}
      aside=${details.object && html`<${Actions} object=${details.object} refresh=${details.refresh} />`}>
      ${row && html`<dl class="facts">
        <div><dt>State</dt><dd><${State} state=${row[F.state]} /></dd></div>
        <div><dt>${row[F.admitted] ? "Has run" : "Has waited"}</dt><dd>${duration(elapsed(row))}</dd></div>
        <div><dt>Namespace</dt><dd>${namespace}</dd></div>
        <div><dt>Queue</dt><dd>${row[F.queue]}${row[F.clusterQueue] ? html` <span class="muted">in</span> <a href=${link("queues", row[F.clusterQueue])}>${row[F.clusterQueue]}</a>` : ""}</dd></div>
        <div><dt>Priority</dt><dd>${row[F.priorityClass] || "none"} <span class="muted">${row[F.priority]}</span></dd></div>
        <div><dt>Requests</dt><dd>${requestText(row[F.requests])} <span class="muted">${row[F.pods]} ${row[F.pods] === 1 ? "pod" : "pods"}</span></dd></div>
        ${row[F.evictions] > 0 && html`<div><dt>Evictions</dt><dd>${count(row[F.evictions])}</dd></div>`}
        ${row[F.cluster] && html`<div><dt>Runs on cluster</dt><dd>${row[F.cluster]}</dd></div>`}
      </dl>`}<//>
    <div class="columns">
      <div><${Explanation} explanation=${details.explanation} row=${row} /><${Pods} namespace=${namespace} pods=${details.pods} row=${row} /></div>
      <${Timeline} object=${details.object} events=${details.events} />
    </div>`;
}

// The objects of a workload, read again whenever its row changes.
function useDetails(namespace, name, row) {
  const [details, setDetails] = useState({ object: null, events: [], pods: [], explanation: null, error: "" });
  const [turn, setTurn] = useState(0);
  const refresh = () => setTurn((before) => before + 1);
  const trigger = row ? row.join("|") : "";
  const podCount = [...tables.pods.values()].filter((pod) => pod.namespace === namespace && row && pod.job === row[F.job]).map((pod) => pod.phase).join();
  useEffect(() => {
    let isCurrent = true;
    const read = async () => {
      const none = () => null;
      let object = null, error = "";
      try { object = await get(paths.workload(namespace, name)); } catch (failure) { error = failure.message; }
      const owner = object && (object.metadata.ownerReferences || [])[0];
      const target = owner ? owner.name : name;
      const [ofWorkload, ofJob, pods, explanation] = await Promise.all([
        get(paths.events(namespace, name)).catch(none),
        owner ? get(paths.events(namespace, target)).catch(none) : null,
        get(podsPath(namespace, object, owner)).catch(none),
        get(paths.explanation(namespace, target, owner ? owner.kind : "workload")).catch(none),
      ]);
      if (!isCurrent) return;
      const events = [...((ofWorkload && ofWorkload.items) || []), ...((ofJob && ofJob.items) || [])];
      setDetails({ object, events, pods: (pods && pods.items) || [], explanation, error });
    };
    const timer = setTimeout(read, turn || !trigger ? 0 : 50);
    return () => { isCurrent = false; clearTimeout(timer); };
  }, [namespace, name, trigger, turn, podCount]);
  return { ...details, refresh };
}

const JOB_LABELS = { Job: "batch.kubernetes.io/job-name", RayCluster: "ray.io/cluster", JobSet: "jobset.sigs.k8s.io/jobset-name",
  LeaderWorkerSet: "leaderworkerset.sigs.k8s.io/name", PyTorchJob: "training.kubeflow.org/job-name", MPIJob: "training.kubeflow.org/job-name",
  TFJob: "training.kubeflow.org/job-name", XGBoostJob: "training.kubeflow.org/job-name", PaddleJob: "training.kubeflow.org/job-name", JAXJob: "training.kubeflow.org/job-name" };

function podsPath(namespace, object, owner) {
  if (owner && owner.kind === "Pod") return `${paths.pods(namespace)}?fieldSelector=metadata.name%3D${owner.name}`;
  const label = owner && JOB_LABELS[owner.kind];
  const selector = label ? `${label}=${owner.name}` : `kueue.x-k8s.io/pod-group-name=${object ? object.metadata.name : ""}`;
  return `${paths.pods(namespace)}?labelSelector=${encodeURIComponent(selector)}`;
}

// Lines are indented with spaces; a line that is wrapped keeps its indentation.
const indented = (line) => ({ paddingLeft: `${(line.length - line.trimStart().length) * 0.6 + 1}em`, textIndent: "-1em" });

function Explanation({ explanation, row }) {
  const text = explanation ? [explanation.summary, ...(explanation.lines || [])].filter((line, index) => line || index) : row && row[F.message] ? [row[F.message]] : [];
  if (!text.length) return null;
  const label = row && ["pending", "reserved", "stopped"].includes(row[F.state]) ? "Why it waits" : row && row[F.finished] ? "What happened" : "What happens";
  const start = explanation && explanation.estimatedStart;
  const estimate = start && html`<p id="estimated-start">Estimated start: <b>${startText(start)}</b>${start.unknown ? html`<span class="muted">, because ${start.unknown}</span>` : ""}</p>`;
  return html`<${Card} title=${label} class="explanation">${estimate}<div id="explanation">${text.map((line, index) => (line ? html`<p class=${index ? "" : "strong"} style=${indented(line)}>${line.trim()}</p>` : html`<br />`))}</div><//>`;
}

// What happens within one second, in its order: conditions have no fractions of seconds.
const ORDER = ["Created", "Suspended", "CreatedWorkload", "Pending", "QuotaReserved", "Admitted", "Started", "Resumed", "SuccessfulCreate", "PodsReady"];
const rank = (moment) => { const place = ORDER.indexOf(moment.title.split(" ")[0]); return place < 0 ? ORDER.length : place; };

// Conditions, events and admission checks in the order of time.
function story(object, events) {
  const moments = [];
  if (object) {
    moments.push({ at: stamp(object.metadata.creationTimestamp), title: "Created", text: `in queue ${object.spec.queueName || "none"}`, tone: "neutral" });
    for (const condition of (object.status && object.status.conditions) || []) {
      const isTrue = condition.status === "True";
      const tone = { Finished: condition.reason === "Failed" ? "bad" : "good", Admitted: isTrue ? "good" : "wait", Evicted: isTrue ? "bad" : "neutral", Preempted: isTrue ? "bad" : "neutral" }[condition.type];
      moments.push({ at: stamp(condition.lastTransitionTime), title: `${condition.type}${isTrue ? "" : ": false"}`, text: [condition.reason, condition.message].filter(Boolean).join(": "), tone: tone || (isTrue ? "good" : "wait") });
    }
    for (const check of (object.status && object.status.admissionChecks) || []) moments.push({ at: stamp(check.lastTransitionTime), title: `Check ${check.name}: ${check.state}`, text: check.message || "", tone: "wait" });
  }
  for (const event of events) {
    const times = event.series && event.series.count > 1 ? ` (${event.series.count} times)` : "";
    moments.push({ at: stamp(event.eventTime || event.deprecatedLastTimestamp || event.metadata.creationTimestamp), title: `${event.reason}${times}`, text: event.note || "", tone: event.reason === "Pending" ? "wait" : event.type === "Warning" ? "bad" : "neutral", isEvent: true, who: event.reportingController });
  }
  return moments.filter((moment) => moment.at).sort((first, second) =>
    Math.floor(first.at) - Math.floor(second.at) || rank(first) - rank(second) || first.at - second.at);
}

function Timeline({ object, events }) {
  const moments = story(object, events);
  return html`<${Card} title="Story"><ol class="timeline" aria-label="Story">${moments.map((moment, index) => html`<li class=${moment.tone} key=${index}>
    <time title=${new Date(moment.at * 1000).toISOString()}>${clockTime(moment.at)}</time>
    <div><b>${moment.title}</b>${moment.isEvent && html` <span class="muted">event</span>`}<p>${moment.text}</p></div>
    ${index > 0 && moment.at - moments[index - 1].at >= 1 && html`<span class="gap muted">+${duration(moment.at - moments[index - 1].at)}</span>`}</li>`)}</ol><//>`;
}

function Pods({ namespace, pods, row }) {
  const [chosen, setChosen] = useState("");
  const pod = pods.find((entry) => entry.metadata.name === chosen) || pods.find((entry) => entry.status.phase === "Running") || pods[0];
  return html`<${Card} title="Pods" aside=${html`<span class="muted">${count(pods.length)}</span>`}>
      ${pods.length ? html`<div class="scroll-x"><table aria-label="Pods"><tbody>${pods.slice(0, 100).map((entry) => html`<tr key=${entry.metadata.uid} class=${entry === pod ? "chosen" : ""}>
        <td><button class="text strong" onClick=${() => setChosen(entry.metadata.name)}>${entry.metadata.name}</button></td><td>${podState(entry)}</td>
        <td class="muted">${entry.spec.nodeName || "no node"}</td></tr>`)}</tbody></table></div>` : html`<${Empty} title="No pods">${row && row[F.admitted] ? "The workload is admitted, but its job has no pods." : "They are created when the workload is admitted."}<//>`}<//>
    ${pod && html`<${Use} namespace=${namespace} pod=${pod} /><${Log} key=${pod.metadata.uid} namespace=${namespace} pod=${pod} />`}`;
}

function podState(pod) {
  const statuses = (pod.status && pod.status.containerStatuses) || [];
  for (const status of statuses) {
    if (status.state && status.state.waiting && status.state.waiting.reason) return status.state.waiting.reason;
    if (status.state && status.state.terminated) return `${pod.status.phase}, exit code ${status.state.terminated.exitCode}`;
  }
  return pod.status.phase || "";
}

// What a pod uses now beside what it requests. The metrics API has no watch, so it is asked again.
function Use({ namespace, pod }) {
  const [use, setUse] = useState(null);
  const isRunning = pod.status.phase === "Running";
  useEffect(() => {
    if (!isRunning) { setUse(null); return undefined; }
    let isCurrent = true;
    const read = () => get(paths.use(namespace, pod.metadata.name)).then((answer) => isCurrent && setUse(answer), () => isCurrent && setUse(null));
    read();
    const timer = setInterval(read, 5000);
    return () => { isCurrent = false; clearInterval(timer); };
  }, [namespace, pod.metadata.name, isRunning]);
  if (!use) return null;
  const sum = {};
  for (const container of use.containers || []) for (const [name, text] of Object.entries(container.usage || {})) sum[name] = (sum[name] || 0) + quantity(text);
  const requests = {};
  for (const container of pod.spec.containers) for (const [name, text] of Object.entries((container.resources && container.resources.requests) || {})) requests[name] = (requests[name] || 0) + quantity(text);
  return html`<${Card} title="Resource use"><dl class="facts">${Object.entries(sum).map(([name, value]) => html`<div key=${name}><dt>${shortName(name)}</dt><dd>${amount(name, value)}${requests[name] ? html` <span class="muted">of ${amount(name, requests[name])} requested</span>` : ""}</dd></div>`)}</dl><//>`;
}

const SUFFIXES = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 1024, Mi: 1024 ** 2, Gi: 1024 ** 3, Ti: 1024 ** 4 };
function quantity(text) {
  const match = /^([\d.]+)([a-zA-Z]*)$/.exec(String(text));
  return match ? Number(match[1]) * (SUFFIXES[match[2]] || 1) : 0;
}

const MOST_LINES = 2000;

function Log({ namespace, pod }) {
  const [text, setText] = useState([]);
  const [error, setError] = useState("");
  const element = useRef(null);
  const canRead = pod.status.phase !== "Pending";
  useEffect(() => {
    if (!canRead) return undefined;
    const controller = new AbortController();
    let buffer = [];
    const flush = setInterval(() => {
      if (!buffer.length) return;
      const fresh = buffer;
      buffer = [];
      setText((before) => [...before, ...fresh].slice(-MOST_LINES));
    }, 150);
    (async () => {
      setText([]);
      try {
        for await (const line of lines(paths.log(namespace, pod.metadata.name), controller.signal)) buffer.push(line);
      } catch (failure) { if (failure.name !== "AbortError") setError(failure.message); }
    })();
    return () => { controller.abort(); clearInterval(flush); };
  }, [namespace, pod.metadata.name, canRead]);
  useEffect(() => { if (element.current) element.current.scrollTop = element.current.scrollHeight; }, [text]);
  return html`<${Card} title="Log" aside=${html`<span class="muted">${pod.metadata.name}</span>`}>
    ${error ? html`<p class="error">${error}</p>` : text.length ? html`<pre class="log" ref=${element} tabindex="0" aria-label="Log">${text.join("\n")}</pre>` : html`<p class="muted">${canRead ? "Nothing was printed yet." : "The pod has not started."}</p>`}<//>`;
}

function Actions({ object, refresh }) {
  const namespace = object.metadata.namespace, name = object.metadata.name;
  const owner = (object.metadata.ownerReferences || [])[0];
  const [group] = owner && owner.apiVersion.includes("/") ? owner.apiVersion.split("/") : [""];
  const plural = owner ? `${owner.kind.toLowerCase()}s` : "workloads";
  const mayPatch = useMay("patch", KUEUE, "workloads", namespace);
  const mayDelete = useMay("delete", owner ? group : KUEUE, plural, namespace);
  const mayChange = useMay("patch", owner ? group : KUEUE, plural, namespace);
  const [isChanging, setChanging] = useState(false);
  const isFinished = ((object.status && object.status.conditions) || []).some((condition) => condition.type === "Finished" && condition.status === "True");
  const active = (value) => () => patch(paths.workload(namespace, name), { spec: { active: value } });
  const target = owner ? ownerPath(namespace, owner) : paths.workload(namespace, name);
  const what = owner ? `${owner.kind} ${owner.name}` : name;
  return html`<div class="actions">
    ${mayPatch && !isFinished && (object.spec.active === false ? html`<${Action} label="Resume" run=${active(true)} onDone=${refresh} />`
      : html`<${Action} label="Stop" confirm=${`${what} is suspended and releases its quota. What its pods have not saved is lost.`} run=${active(false)} onDone=${refresh} />`)}
    ${mayChange && !isFinished && html`<button onClick=${() => setChanging(true)}>Priority</button>`}
    ${mayDelete && html`<${Action} danger label="Delete" confirm=${`${what} and its pods are deleted for good.`}
      run=${() => call("DELETE", target, { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background" })} onDone=${() => { location.hash = "#/workloads"; }} />`}
    ${isChanging && html`<${Priority} target=${target} current=${(object.spec.priorityClassRef || {}).name || ""} onClose=${() => setChanging(false)} />`}</div>`;
}

// The label of the job names its WorkloadPriorityClass; the controllers copy a change to the workload.
function Priority({ target, current, onClose }) {
  const [classes, setClasses] = useState([]);
  const [chosen, setChosen] = useState(current);
  const [error, setError] = useState("");
  useEffect(() => { get(paths.priorityClasses()).then((answer) => setClasses(answer.items || []), (failure) => setError(failure.message)); }, []);
  const save = () => patch(target, { metadata: { labels: { [PRIORITY_LABEL]: chosen } } }).then(onClose, (failure) => setError(failure.message));
  return html`<${Dialog} title="Change priority" onClose=${onClose} onEnter=${save} actions=${html`<button class="primary" disabled=${!chosen || chosen === current}>Change</button>`}>
    ${classes.length ? html`<label>Priority class<select value=${chosen} onChange=${(event) => setChosen(event.target.value)}><option value="">choose one</option>
      ${classes.sort((first, second) => second.value - first.value).map((entry) => html`<option value=${entry.metadata.name}>${entry.metadata.name} (${entry.value})</option>`)}</select></label>` : html`<p>There is no WorkloadPriorityClass.</p>`}
    ${error && html`<p class="error" role="alert">${error}</p>`}<//>`;
}
