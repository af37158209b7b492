// The tree of cohorts and cluster queues, with the quota of each flavor and resource.

import { F, connection, history, now, tables, useClock, useTables } from "./store.js";
import { Card, Empty, Legend, Plot, QuotaBar, Tile, amount, count, duration, html, link, shortName, useMemo, useState } from "./ui.js";

const FEW = 12;
// Fields of a quota row.
const [FLAVOR, RESOURCE, NOMINAL, BORROWING, LENDING, RESERVED, BORROWED, USED] = [0, 1, 2, 3, 4, 5, 6, 7];

// Cohorts by name with their children; cohorts that only queues name exist, too.
function tree() {
  const cohorts = new Map();
  const cohort = (name) => {
    if (!cohorts.has(name)) cohorts.set(name, { name, parent: "", quota: [], cohorts: [], queues: [] });
    return cohorts.get(name);
  };
  for (const row of tables.cohorts.values()) Object.assign(cohort(row.name), { parent: row.parent, quota: row.quota });
  const alone = [];
  for (const queue of tables.clusterqueues.values()) (queue.cohort ? cohort(queue.cohort).queues : alone).push(queue);
  const roots = [];
  for (const node of [...cohorts.values()]) {
    if (node.parent) cohort(node.parent).cohorts.push(node);
  }
  for (const node of cohorts.values()) if (!node.parent) roots.push(node);
  const byName = (first, second) => (first.name < second.name ? -1 : 1);
  for (const node of cohorts.values()) { node.cohorts.sort(byName); node.queues.sort(byName); }
  return { roots: roots.sort(byName), alone: alone.sort(byName) };
}

// Quota and usage of a cohort with all below it, by flavor and resource.
function totals(node, sums = new Map()) {
  const at = (entry) => {
    const key = `${entry[FLAVOR]} ${entry[RESOURCE]}`;
    if (!sums.has(key)) sums.set(key, { flavor: entry[FLAVOR], resource: entry[RESOURCE], nominal: 0, reserved: 0, used: 0 });
    return sums.get(key);
  };
  for (const entry of node.quota || []) at(entry).nominal += entry[NOMINAL];
  for (const queue of node.queues) {
    for (const entry of queue.quota) {
      const sum = at(entry);
      sum.nominal += entry[NOMINAL];
      sum.reserved += entry[RESERVED];
      sum.used += entry[USED];
    }
  }
  for (const child of node.cohorts) totals(child, sums);
  return sums;
}

const all = (roots, alone) => totals({ quota: [], queues: alone, cohorts: roots });

export function Cluster() {
  useTables("clusterqueues", "cohorts", "connection", "history", "workloads");
  useClock(5);
  const { roots, alone } = tree();
  if (connection.ready && connection.scope.clusterqueues === false) return html`<${OwnQueues} />`;
  if (!roots.length && !alone.length) {
    return html`<${Card}><${Empty} title=${connection.ready ? "No cluster queues yet" : "Loading"}>
      ${connection.ready && html`Create the first one with <code>pykueue create clusterqueue team --nominal-quota "default:cpu=8"</code>.`}<//><//>`;
  }
  return html`<${Summary} sums=${all(roots, alone)} />
    ${roots.map((node) => html`<${Cohort} key=${node.name} node=${node} depth=${0} />`)}
    ${alone.length > 0 && html`<${Card} title=${roots.length ? "Without a cohort" : "Cluster queues"} aside=${html`<${Legend} />`}>
      <${Queues} queues=${alone} lendable=${null} /><//>`}`;
}

function Summary({ sums }) {
  const states = useMemo(() => {
    const counts = { pending: 0, running: 0, oldest: 0 };
    for (const row of tables.workloads.values()) {
      if (row[F.state] === "pending" || row[F.state] === "reserved") {
        counts.pending += 1;
        if (!counts.oldest || row[F.created] < counts.oldest) counts.oldest = row[F.created];
      } else if (row[F.state] === "running" || row[F.state] === "starting") counts.running += 1;
    }
    return counts;
  }, [tables.workloads.size, Math.floor(now() / 2)]);
  const byResource = new Map();
  for (const sum of sums.values()) {
    const total = byResource.get(sum.resource) || { nominal: 0, reserved: 0 };
    total.nominal += sum.nominal;
    total.reserved += sum.reserved;
    byResource.set(sum.resource, total);
  }
  const queues = [...tables.clusterqueues.values()];
  // The queues know how many workloads there are before the list of them is complete.
  const sum = (name) => queues.reduce((total, queue) => total + queue[name], 0);
  const [running, pending] = connection.listed.has("workloads") ? [states.running, states.pending] : [sum("admitted"), sum("pending")];
  return html`<div class="tiles">
      <${Tile} label="Running" value=${count(running)} note=${`${count(queues.length)} cluster ${queues.length === 1 ? "queue" : "queues"}`} />
      <${Tile} label="Pending" value=${count(pending)} note=${states.oldest ? `oldest waits ${duration(now() - states.oldest)}` : "nobody waits"} />
      ${[...byResource].sort(([first], [second]) => second.includes("/") - first.includes("/")).slice(0, 6).map(([name, total]) => html`<${Tile} label=${shortName(name)}
        value=${total.nominal ? `${Math.round((total.reserved / total.nominal) * 100)} %` : "–"}
        note=${`${amount(name, total.reserved)} of ${amount(name, total.nominal)}`} />`)}
    </div>
    <${Utilisation} />`;
}

function Utilisation() {
  const ring = history.short;
  if (!ring || ring.times.length < 3) return null;
  const names = Object.keys(ring.series).filter((name) => name.startsWith("reserved/")).sort();
  const series = names.slice(0, 6).map((name) => {
    const quota = ring.series[name.replace("reserved/", "quota/")] || [];
    const [, flavor, ...resource] = name.split("/");
    const values = ring.series[name].map((value, index) => (value === null || !quota[index] ? null : (value / quota[index]) * 100));
    return { label: `${flavor} ${resource.pop()}`, values };
  });
  const queues = Object.keys(ring.series).filter((name) => name.startsWith("pending/"));
  const depth = ring.times.map((_at, index) => queues.reduce((sum, name) => sum + (ring.series[name][index] || 0), 0));
  return html`<div class="plots">
    <${Card}><${Plot} label="Reserved quota, last hour" times=${ring.times} series=${series} unit="percent" /><//>
    <${Card}><${Plot} label="Pending workloads" times=${ring.times} series=${[{ label: "all queues", values: depth }]} /><//>
  </div>`;
}

function Cohort({ node, depth }) {
  const lendable = totals(node);
  const sums = [...lendable.values()];
  return html`<${Card} class=${depth ? "nested" : ""} title=${html`<span class="muted">Cohort</span> ${node.name}`} aside=${depth ? "" : html`<${Legend} />`}>
    <div class="quota cohort">${sums.map((sum) => html`<${QuotaRow} key=${`${sum.flavor} ${sum.resource}`} flavor=${sum.flavor} resource=${sum.resource}
      nominal=${sum.nominal} reserved=${sum.reserved} used=${sum.used} borrowed=${0} whole=${sum.nominal} />`)}</div>
    ${node.cohorts.map((child) => html`<${Cohort} key=${child.name} node=${child} depth=${depth + 1} />`)}
    <${Queues} queues=${node.queues} lendable=${lendable} />
  <//>`;
}

// The busiest queues first when there are many of them.
function Queues({ queues, lendable }) {
  const [isAll, setAll] = useState(false);
  const load = (queue) => queue.pending * 1e6 + queue.admitted;
  const isLong = queues.length > FEW && !isAll;
  const visible = isLong ? [...queues].sort((first, second) => load(second) - load(first)).slice(0, FEW) : queues;
  return html`<div class="queues">${visible.map((queue) => html`<${Queue} key=${queue.name} queue=${queue} lendable=${lendable} />`)}</div>
    ${isLong && html`<button class="text more" onClick=${() => setAll(true)}>Show all ${count(queues.length)} cluster queues (the ${FEW} busiest are shown)</button>`}`;
}

function Queue({ queue, lendable }) {
  return html`<article class="queue">
    <h3><a href=${link("queues", queue.name)}>${queue.name}</a>
      ${queue.stop && html`<span class="tag warn">${queue.stop}</span>`}
      ${!queue.active && !queue.stop && html`<span class="tag warn" title=${queue.reason}>not active</span>`}</h3>
    <p class="numbers"><a href=${`#/workloads?queue=${encodeURIComponent(queue.name)}`}><b>${count(queue.admitted)}</b> admitted, <b>${count(queue.pending)}</b> pending</a></p>
    <${QueueQuota} queue=${queue} lendable=${lendable} />
  </article>`;
}

// The bars of a queue. `lendable` is the quota of its cohort; without it the queue has its own only. A bar ends at twice
// the nominal quota: in a large cohort it would be too short to read.
export function QueueQuota({ queue, lendable }) {
  return html`<div class="quota">${queue.quota.map((entry) => {
    const sum = lendable && lendable.get(`${entry[FLAVOR]} ${entry[RESOURCE]}`);
    const others = sum ? Math.max(0, sum.nominal - entry[NOMINAL]) : 0;
    const mayBorrow = entry[BORROWING] === null ? others : Math.min(others, entry[BORROWING]);
    const lent = sum ? Math.max(0, Math.min(entry[NOMINAL] - entry[RESERVED], entry[LENDING] ?? Infinity, sum.reserved - entry[RESERVED] - others)) : 0;
    return html`<${QuotaRow} key=${`${entry[FLAVOR]} ${entry[RESOURCE]}`} flavor=${entry[FLAVOR]} resource=${entry[RESOURCE]} nominal=${entry[NOMINAL]}
      reserved=${entry[RESERVED]} used=${entry[USED]} borrowed=${entry[BORROWED]} lent=${lent} whole=${Math.min(entry[NOMINAL] + mayBorrow, Math.max(2 * entry[NOMINAL], entry[RESERVED]))} />`;
  })}</div>`;
}

// The quota of the cohort of a queue, by flavor and resource.
export function lendableOf(queue) {
  const node = queue.cohort && find(tree().roots, queue.cohort);
  return node ? totals(node) : null;
}
const find = (nodes, name) => nodes.find((node) => node.name === name) || nodes.reduce((found, node) => found || find(node.cohorts, name), undefined);

function QuotaRow({ flavor, resource, ...amounts }) {
  return html`<div class="quota-row"><span class="what" title=${`${flavor} ${resource}`}>${shortName(resource)}<span class="muted"> ${flavor}</span></span>
    <${QuotaBar} resource=${resource} ...${amounts} />
    <span class="number">${amount(resource, amounts.reserved)} / ${amount(resource, amounts.nominal)}</span></div>`;
}

// What a user sees who may not list cluster queues: the local queues of the own namespaces.
function OwnQueues() {
  useTables("localqueues");
  const queues = [...tables.localqueues.values()];
  return html`<${Card} title="My queues" aside=${html`<span class="muted">You see the queues of your namespaces.</span>`}>
    ${queues.length ? html`<div class="queues">${queues.map((queue) => html`<article class="queue" key=${`${queue.namespace}/${queue.name}`}>
      <h3><a href=${`#/workloads?namespace=${queue.namespace}&queue=${queue.name}`}>${queue.namespace}/${queue.name}</a>
        ${!queue.active && html`<span class="tag warn" title=${queue.reason}>not active</span>`}</h3>
      <p class="numbers"><span><b>${count(queue.admitted)}</b> admitted</span> <span><b>${count(queue.pending)}</b> pending</span></p>
      <div class="quota">${queue.usage.map(([flavor, resource, total]) => html`<div class="quota-row"><span class="what">${shortName(resource)}<span class="muted"> ${flavor}</span></span>
        <span></span><span class="number">${amount(resource, total)}</span></div>`)}</div></article>`)}</div>`
    : html`<${Empty} title="No local queues">Ask an administrator for a LocalQueue in your namespace.<//>`}<//>`;
}
