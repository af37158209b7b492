// The fleet as a map: topology domains or pools, nodes in them, pods in the nodes.

import { F, connection, tables, useTables } from "./store.js";
import { Card, Empty, Tile, amount, count, html, link, shortName, useMemo, useState } from "./ui.js";

const POOL_LABELS = ["karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "agentpool", "node.kubernetes.io/instance-type"];
const HOST = "kubernetes.io/hostname";
const MOST_NODES = 400;

// The labels by which nodes are grouped: the levels of a topology above the host, else the pool.
function groupings(nodes) {
  const result = [];
  for (const topology of tables.topologies.values()) {
    const levels = topology.levels.filter((label) => label !== HOST);
    if (levels.length && nodes.some((node) => node.labels[levels[0]])) result.push({ name: `topology ${topology.name}`, levels });
  }
  for (const label of POOL_LABELS) if (nodes.some((node) => node.labels[label])) result.push({ name: shortName(label), levels: [label] });
  return [...result, { name: "all nodes", levels: [] }];
}

function grouped(nodes, levels) {
  if (!levels.length) return null;
  const groups = new Map();
  for (const node of nodes) {
    const name = node.labels[levels[0]] || "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  return [...groups].sort(([first], [second]) => (first < second ? -1 : 1));
}

export function Nodes() {
  const version = useTables("nodes", "pods", "topologies", "connection");
  const [choice, setChoice] = useState(0);
  const [text, setText] = useState("");
  const everything = [...tables.nodes.values()];
  const pods = useMemo(() => {
    const byNode = new Map();
    for (const pod of tables.pods.values()) {
      if (!byNode.has(pod.node)) byNode.set(pod.node, []);
      byNode.get(pod.node).push(pod);
    }
    return byNode;
  }, [version]);
  if (connection.ready && connection.scope.nodes === false) return html`<${Card}><${Empty} title="You may not list nodes">Ask an administrator for the right to list nodes.<//><//>`;
  if (!everything.length) return html`<${Card}><${Empty} title="No nodes">${connection.ready ? html`With the runtime <code>none</code> there are no nodes. <code>pykueue up --nodes FILE</code> adds some.` : "Loading"}<//><//>`;
  const nodes = everything.filter((node) => node.name.includes(text)).sort((first, second) => (first.name < second.name ? -1 : 1));
  const ways = groupings(everything);
  const way = ways[Math.min(choice, ways.length - 1)];
  const ready = everything.filter((node) => node.ready && !node.cordoned).length;
  const totals = {}, requested = {};
  for (const node of everything) for (const [name, value] of Object.entries(node.amounts)) totals[name] = (totals[name] || 0) + value;
  for (const pod of tables.pods.values()) for (const [name, value] of Object.entries(pod.amounts)) requested[name] = (requested[name] || 0) + value;
  const names = Object.keys(totals).sort((first, second) => second.includes("/") - first.includes("/")).filter((name) => totals[name] > 0 && !/ephemeral|hugepages|^pods$/.test(name));
  return html`<div class="tiles"><${Tile} label="Nodes" value=${count(everything.length)} note=${`${count(ready)} ready`} />
      <${Tile} label="Pods" value=${count(tables.pods.size)} note="on these nodes" />
      ${names.slice(0, 5).map((name) => html`<${Tile} label=${shortName(name)} value=${`${Math.round(((requested[name] || 0) / totals[name]) * 100)} %`} note=${`${amount(name, requested[name] || 0)} of ${amount(name, totals[name])}`} />`)}</div>
    <${Card} title="Nodes" aside=${html`<span class="filters inline"><input type="search" aria-label="Filter nodes" placeholder="Filter" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Group by" value=${choice} onChange=${(event) => setChoice(Number(event.target.value))}>${ways.map((entry, index) => html`<option value=${index}>by ${entry.name}</option>`)}</select></span>`}>
      <${Domain} nodes=${nodes.slice(0, MOST_NODES)} levels=${way.levels} pods=${pods} names=${names} />
      ${nodes.length > MOST_NODES && html`<p class="muted">${MOST_NODES} of ${count(nodes.length)} nodes. Filter by a part of the name to see others.</p>`}<//>`;
}

function Domain({ nodes, levels, pods, names }) {
  const groups = grouped(nodes, levels);
  if (!groups) return html`<div class="map">${nodes.map((node) => html`<${Node} key=${node.name} node=${node} pods=${pods.get(node.name) || []} names=${names} />`)}</div>`;
  return html`<div class="domains">${groups.map(([name, inside]) => html`<section class=${`domain ${inside.length > 4 ? "" : "small"}`} key=${name}><h3>${name || html`<span class="muted">none</span>`}
    <span class="muted">${shortName(levels[0])}, ${inside.length} ${inside.length === 1 ? "node" : "nodes"}</span></h3>
    <${Domain} nodes=${inside} levels=${levels.slice(1)} pods=${pods} names=${names} /></section>`)}</div>`;
}

function Node({ node, pods, names }) {
  const used = {};
  for (const pod of pods) for (const [name, value] of Object.entries(pod.amounts)) used[name] = (used[name] || 0) + value;
  const state = node.ready ? (node.cordoned ? "cordoned" : "") : "not ready";
  const own = names.filter((name) => node.amounts[name] > 0).slice(0, 4);
  return html`<article class=${`node ${state ? "off" : ""}`} title=${node.taints.length ? `taints: ${node.taints.join(", ")}` : ""}>
    <h4>${node.name}${state && html` <span class="tag warn">${state}</span>`}</h4>
    ${own.map((name) => html`<div class="meter" key=${name}><span>${shortName(name)}</span>
      <div class="bar small" role="img" aria-label=${`${amount(name, used[name] || 0)} of ${amount(name, node.amounts[name])} ${name} requested`}><div class="fill used" style=${{ width: `${Math.min(100, ((used[name] || 0) / node.amounts[name]) * 100)}%` }}></div></div>
      <span class="number">${amount(name, used[name] || 0)} / ${amount(name, node.amounts[name])}</span></div>`)}
    <div class="pods">${pods.slice(0, 60).map((pod) => html`<a key=${`${pod.namespace}/${pod.name}`} class=${`pod ${pod.phase.toLowerCase()}`} href=${podLink(pod)}
      title=${`${pod.namespace}/${pod.name}, ${pod.phase}`} aria-label=${`pod ${pod.namespace}/${pod.name}`}></a>`)}
      ${pods.length > 60 && html`<span class="muted">+${pods.length - 60}</span>`}
      ${!pods.length && html`<span class="muted">no pods</span>`}</div></article>`;
}

function podLink(pod) {
  if (pod.workload) return link("workload", pod.namespace, pod.workload);
  for (const row of tables.workloads.values()) if (row[F.namespace] === pod.namespace && row[F.job] === pod.job) return link("workload", pod.namespace, row[F.name]);
  return `#/workloads?namespace=${pod.namespace}`;
}
