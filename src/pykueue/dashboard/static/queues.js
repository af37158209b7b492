// Cluster queues as a table with depth, waits and admissions, and one queue with its past.

import { history, now, tables, useClock, useTables } from "./store.js";
import { call, get, patch, paths } from "./api.js";
import { Action, Card, Dialog, Empty, Legend, Plot, count, duration, html, link, shortName, startText, useEffect, useMay, useState } from "./ui.js";
import { QueueQuota, lendableOf } from "./cluster.js";

const KUEUE = "kueue.x-k8s.io";

// The values of the last hour; null where there was none.
function recent(name, queue) {
  const ring = history.short;
  const series = ring && ring.series[`${name}/${queue}`];
  if (!series) return [];
  const from = now() - 3600;
  return series.filter((_value, index) => ring.times[index] >= from);
}
// Samples have rates a minute.
const totalOf = (rates) => rates.reduce((sum, rate) => sum + (rate || 0) * (history.short.step / 60), 0);

// A small line of the depth of a queue; the view of one queue has the plot.
function Spark({ values }) {
  if (values.length < 2) return null;
  const most = Math.max(...values, 1);
  const points = values.map((value, index) => `${((index / (values.length - 1)) * 100).toFixed(1)},${(22 - (value / most) * 20).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><polyline points=${points} /></svg>`;
}

export function Queues() {
  useTables("clusterqueues", "localqueues", "history");
  useClock(5);
  const queues = [...tables.clusterqueues.values()].sort((first, second) => second.pending - first.pending || second.admitted - first.admitted || (first.name < second.name ? -1 : 1));
  const locals = [...tables.localqueues.values()].sort((first, second) => second.pending - first.pending || (first.name < second.name ? -1 : 1));
  return html`
    ${queues.length > 0 && html`<${Card} title="Cluster queues" aside=${html`<span class="muted">admissions, ends and waits of the last hour</span>`}>
      <div class="scroll-x"><table aria-label="Cluster queues"><thead><tr><th>Name</th><th class="wide">Cohort</th><th class="number">Pending</th><th class="wide">Depth</th><th class="number">Admitted</th>
        <th class="number wide">Admissions</th><th class="number wide">Finished</th><th class="number">Mean wait</th><th class="wide">State</th></tr></thead>
      <tbody>${queues.slice(0, 300).map((queue) => html`<tr key=${queue.name}>
        <td><a class="strong" href=${link("queues", queue.name)}>${queue.name}</a></td><td class="wide">${queue.cohort || html`<span class="muted">none</span>`}</td>
        <td class="number">${count(queue.pending)}</td><td class="wide"><${Spark} values=${recent("pending", queue.name).filter((value) => value !== null)} /></td>
        <td class="number">${count(queue.admitted)}</td>
        <td class="number wide">${lastHour("rate", queue.name)}</td><td class="number wide">${lastHour("finished", queue.name)}</td><td class="number">${wait(queue.name)}</td>
        <td class="wide">${queue.stop ? html`<span class="tag warn">${queue.stop}</span>` : queue.active ? html`<span class="tag">active</span>` : html`<span class="tag warn" title=${queue.reason}>not active</span>`}</td>
      </tr>`)}</tbody></table></div>
      ${queues.length > 300 && html`<p class="muted">The 300 queues with the most pending workloads of ${count(queues.length)}.</p>`}<//>`}
    <${Card} title="Local queues">${locals.length ? html`<div class="scroll-x"><table aria-label="Local queues"><thead><tr><th>Name</th><th>Namespace</th><th class="wide">Cluster queue</th>
      <th class="number">Pending</th><th class="number">Admitted</th><th class="wide">State</th></tr></thead>
      <tbody>${locals.slice(0, 300).map((queue) => html`<tr key=${`${queue.namespace}/${queue.name}`}>
        <td><a class="strong" href=${`#/workloads?namespace=${queue.namespace}&queue=${queue.name}`}>${queue.name}</a></td><td>${queue.namespace}</td>
        <td class="wide">${queue.clusterQueue}</td><td class="number">${count(queue.pending)}</td><td class="number">${count(queue.admitted)}</td>
        <td class="wide">${queue.stop ? html`<span class="tag warn">${queue.stop}</span>` : queue.active ? html`<span class="tag">active</span>` : html`<span class="tag warn" title=${queue.reason}>${queue.reason || "not active"}</span>`}</td></tr>`)}</tbody></table></div>`
    : html`<${Empty} title="No local queues">Jobs name a LocalQueue of their namespace: <code>pykueue create localqueue NAME --clusterqueue QUEUE</code>.<//>`}<//>`;
}

const lastHour = (kind, name) => { const rates = recent(kind, name); return rates.length ? count(Math.round(totalOf(rates))) : "–"; };
function wait(name) {
  const rates = recent("rate", name), waits = recent("wait", name);
  const weighted = waits.map((wait, index) => (wait || 0) * (rates[index] || 0));
  return totalOf(rates) ? duration(totalOf(weighted) / totalOf(rates)) : "–";
}

const RANGES = { "1 hour": "short", "7 days": "long" };

export function Queue({ name }) {
  useTables("clusterqueues", "localqueues", "history");
  const [range, setRange] = useState("1 hour");
  const queue = tables.clusterqueues.get(name);
  if (!queue) return html`<${Card}><${Empty} title=${`There is no cluster queue ${name}`}><a href="#/queues">All queues</a><//><//>`;
  const ring = history[RANGES[range]];
  const of = (kind) => (ring && ring.series[`${kind}/${name}`]) || [];
  const series = (kind, label) => [{ label, values: of(kind).length ? of(kind) : ring.times.map(() => null) }];
  const locals = [...tables.localqueues.values()].filter((local) => local.clusterQueue === name);
  return html`<${Card} title=${html`<span class="muted">Cluster queue</span> ${name}`} aside=${html`<${QueueActions} queue=${queue} />`}>
      <p>${queue.cohort ? html`In cohort <b>${queue.cohort}</b>. ` : "In no cohort. "}${queue.strategy}. ${queue.stop && html`<b>${queue.stop}</b>. `}${queue.reason}</p>
      <div class="one"><${QueueQuota} queue=${queue} lendable=${lendableOf(queue)} /></div><${Legend} /><//>
    ${ring && ring.times.length > 2 ? html`<div class="ranges" role="group" aria-label="Range">${Object.keys(RANGES).map((word) => html`<button class=${word === range ? "chosen" : ""} aria-pressed=${word === range} onClick=${() => setRange(word)}>${word}</button>`)}</div>
    <div class="plots">
      <${Card}><${Plot} label="Workloads" times=${ring.times} series=${[...series("pending", "pending"), ...series("admitted", "admitted")]} /><//>
      <${Card}><${Plot} label="Workloads a minute" times=${ring.times} series=${[...series("rate", "admitted"), ...series("finished", "finished")]} /><//>
      <${Card}><${Plot} label="Mean wait of admitted workloads" times=${ring.times} series=${[{ ...series("wait", "wait")[0], isSparse: true }]} unit="time" /><//>
    </div>` : html`<${Card}><${Empty} title="No samples yet">The first ones arrive within half a minute.<//><//>`}
    <${NextInLine} name=${name} pending=${queue.pending} admitted=${queue.admitted} />
    <${Card} title="Local queues">${locals.length ? html`<table aria-label="Local queues"><tbody>${locals.map((local) => html`<tr key=${`${local.namespace}/${local.name}`}><td><a class="strong" href=${`#/workloads?namespace=${local.namespace}&queue=${local.name}`}>${local.namespace}/${local.name}</a></td>
      <td class="number">${count(local.pending)} pending</td><td class="number">${count(local.admitted)} admitted</td></tr>`)}</tbody></table>`
    : html`<${Empty} title="No local queue leads here">Workloads reach a cluster queue through a LocalQueue.<//>`}<//>`;
}

// The pending workloads in the order in which they are tried. Estimates have no watch and change
// without the queue, so they are asked for again.
function NextInLine({ name, pending, admitted }) {
  const [items, setItems] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    const read = () => get(paths.pending(name)).then((answer) => isCurrent && setItems(answer.items || []), () => isCurrent && setItems(null));
    read();
    const timer = setInterval(() => { if (!document.hidden) read(); }, 10000);
    return () => { isCurrent = false; clearInterval(timer); };
  }, [name, pending, admitted]);
  if (!items || !items.length) return null;
  return html`<${Card} title="Next in line"><div class="scroll-x"><table aria-label="Next in line"><thead><tr><th>Place</th><th>Workload</th><th>Namespace</th><th class="number">Priority</th><th>Estimated start</th></tr></thead>
    <tbody>${items.map((item, index) => html`<tr key=${item.metadata.namespace + item.metadata.name}><td>${index + 1}</td>
      <td><a class="strong" href=${link("workload", item.metadata.namespace, item.metadata.name)}>${item.metadata.name}</a></td><td>${item.metadata.namespace}</td><td class="number">${item.priority ?? 0}</td>
      <td title=${item.estimatedStart ? item.estimatedStart.unknown || "" : ""}>${startText(item.estimatedStart)}</td></tr>`)}</tbody></table></div><//>`;
}

function QueueActions({ queue }) {
  const mayPatch = useMay("patch", KUEUE, "clusterqueues");
  const [isRaising, setRaising] = useState(false);
  if (!mayPatch) return null;
  const stop = (policy) => () => patch(paths.clusterQueue(queue.name), { spec: { stopPolicy: policy } });
  return html`<div class="actions">
    <button onClick=${() => setRaising(true)}>Change quota</button>
    ${queue.stop ? html`<${Action} label="Resume" run=${stop("None")} />`
      : html`<${Action} label="Hold" confirm=${`${queue.name} admits nothing more; admitted workloads go on.`} run=${stop("Hold")} />`}
    ${isRaising && html`<${RaiseQuota} name=${queue.name} onClose=${() => setRaising(false)} />`}</div>`;
}

function RaiseQuota({ name, onClose }) {
  const [object, setObject] = useState(null);
  const [entry, setEntry] = useState("0 0 0");
  const [value, setValue] = useState("");
  const [error, setError] = useState("");
  useEffect(() => { get(paths.clusterQueue(name)).then(setObject, (failure) => setError(failure.message)); }, [name]);
  const entries = [];
  for (const [group, of] of (object ? object.spec.resourceGroups || [] : []).entries()) {
    for (const [flavor, inside] of of.flavors.entries()) {
      for (const [index, resource] of inside.resources.entries()) entries.push({ key: `${group} ${flavor} ${index}`, label: `${shortName(resource.name)} of ${inside.name}: ${resource.nominalQuota}` });
    }
  }
  const [effect, setEffect] = useState(null);
  const groups = () => {
    const changed = JSON.parse(JSON.stringify(object.spec.resourceGroups));
    const [group, flavor, index] = entry.split(" ").map(Number);
    changed[group].flavors[flavor].resources[index].nominalQuota = value;
    return changed;
  };
  // What the change would do in the next hour; nothing is written.
  const preview = async () => {
    setError("");
    setEffect(["The next hour is simulated …"]);
    const kind = { apiVersion: "kueue.x-k8s.io/v1beta2", kind: "ClusterQueue" };
    try {
      setEffect((await call("POST", "/dashboard/preview", { ...object, ...kind, spec: { ...object.spec, resourceGroups: groups() } })).lines);
    } catch (failure) { setEffect(null); setError(failure.message); }
  };
  const save = async () => {
    try {
      // The version makes sure that a change of somebody else is not lost.
      await patch(paths.clusterQueue(name), { metadata: { resourceVersion: object.metadata.resourceVersion }, spec: { resourceGroups: groups() } });
      onClose();
    } catch (failure) { setError(failure.message); }
  };
  return html`<${Dialog} title=${`Quota of ${name}`} onClose=${onClose} onEnter=${preview} actions=${html`<button disabled=${!value}>Preview</button>
    <button type="button" class="primary" disabled=${!value} onClick=${save}>Change</button>`}>
    <label>Resource<select value=${entry} onChange=${(event) => { setEntry(event.target.value); setEffect(null); }}>${entries.map(({ key, label }) => html`<option value=${key}>${label}</option>`)}</select></label>
    <label>New nominal quota<input value=${value} placeholder="for example 16 or 64Gi" onInput=${(event) => { setValue(event.target.value); setEffect(null); }} /></label>
    ${effect && html`<div id="effect" class="effect" role="status">${effect.map((line) => html`<p>${line}</p>`)}</div>`}
    ${error && html`<p class="error" role="alert">${error}</p>`}<//>`;
}
