// All workloads: filtered, sorted, and drawn only where they are visible.

import { F, connection, now, tables, useClock, useTables } from "./store.js";
import { Card, Empty, STATES, State, count, duration, html, link, requestText, shortReason, useEffect, useMemo, useRef, useState } from "./ui.js";

const ROW = 34;
const OVERSCAN = 8;
const ACTIVE = { pending: 0, reserved: 1, starting: 2, running: 3, stopping: 4, stopped: 5, failed: 6, finished: 7 };

const title = (row) => row[F.job] || row[F.name];
const order = {
  state: (row) => ACTIVE[row[F.state]] ?? 9,
  name: (row) => title(row),
  namespace: (row) => row[F.namespace],
  queue: (row) => row[F.queue],
  priority: (row) => -row[F.priority],
  time: (row) => -elapsed(row),
  age: (row) => -row[F.created],
};

// How long a workload waits, or has run.
export function elapsed(row, at = now()) {
  if (row[F.finished]) return row[F.admitted] ? row[F.finished] - row[F.admitted] : 0;
  if (row[F.admitted]) return at - row[F.admitted];
  return at - row[F.created];
}

const NONE = { text: "", namespace: "", queue: "", state: "", user: "", priority: "" };
export const filters = { ...NONE, sort: "age", reverse: false };

// `leading` are the local queues that lead to the chosen cluster queue: a pending workload names no other.
function matches(row, chosen, words, leading) {
  if (chosen.state === "active" ? row[F.finished] : chosen.state && row[F.state] !== chosen.state) return false;
  if (chosen.namespace && row[F.namespace] !== chosen.namespace) return false;
  if (chosen.queue && row[F.queue] !== chosen.queue && row[F.clusterQueue] !== chosen.queue && !leading.has(`${row[F.namespace]}/${row[F.queue]}`)) return false;
  if (chosen.user && row[F.user] !== chosen.user) return false;
  if (chosen.priority && (row[F.priorityClass] || String(row[F.priority])) !== chosen.priority) return false;
  return words.every((word) => row[F.name].includes(word) || row[F.job].toLowerCase().includes(word)
    || row[F.namespace].includes(word) || row[F.queue].includes(word) || row[F.message].toLowerCase().includes(word)
    || row[F.jobKind].toLowerCase().includes(word) || row[F.user].includes(word));
}

export function select(rows, chosen) {
  const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
  const leading = new Set();
  for (const [key, queue] of tables.localqueues) if (queue.clusterQueue === chosen.queue) leading.add(key);
  const found = [];
  for (const row of rows) if (matches(row, chosen, words, leading)) found.push(row);
  const key = order[chosen.sort] || order.age;
  const keyed = found.map((row) => [key(row), row]);
  const sign = chosen.reverse ? -1 : 1;
  keyed.sort(([a, first], [b, second]) => sign * (a < b ? -1 : a > b ? 1 : second[F.created] - first[F.created] || (first[F.uid] < second[F.uid] ? -1 : 1)));
  return keyed.map(([, row]) => row);
}

function choices(index, other) {
  const values = new Set();
  for (const row of tables.workloads.values()) {
    values.add(row[index] || (other === undefined ? "" : String(row[other])));
    if (values.size > 500) break;
  }
  values.delete("");
  return [...values].sort();
}

function Choice({ name, label, values, set, chosen }) {
  if (values.length < 2 && !chosen[name]) return null;
  return html`<select aria-label=${label} value=${chosen[name]} onChange=${(event) => set({ [name]: event.target.value })}>
    <option value="">${label}</option>${(chosen[name] && !values.includes(chosen[name]) ? [chosen[name], ...values] : values).map((value) => html`<option value=${value}>${value}</option>`)}</select>`;
}

// A link that filters replaces the filter of before.
const asked = (query) => (Object.keys(query).length ? { ...NONE, ...query } : {});

export function Workloads({ query }) {
  const version = useTables("workloads", "connection");
  useClock(2);
  const [chosen, setChosen] = useState(() => ({ ...filters, ...asked(query) }));
  const [cursor, setCursor] = useState(-1);
  const search = useRef(null);
  // A new object each time: the list is filtered again only for another one.
  const set = (change) => setChosen((before) => ({ ...Object.assign(filters, before, change) }));
  useEffect(() => { set(asked(query)); }, [JSON.stringify(query)]);
  const rows = useMemo(() => select(tables.workloads.values(), chosen), [version, chosen]);
  const options = useMemo(() => ({
    namespaces: choices(F.namespace), queues: choices(F.queue), users: choices(F.user), priorities: choices(F.priorityClass, F.priority),
  }), [tables.workloads.size]);
  useEffect(() => {
    const onKey = (event) => {
      if (event.target.closest("input, select, textarea, dialog")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      if (event.key === "/") { event.preventDefault(); search.current.focus(); }
      if (event.key === "j") setCursor((at) => Math.min(rows.length - 1, at + 1));
      if (event.key === "k") setCursor((at) => Math.max(0, at - 1));
      if (event.key === "Enter" && rows[cursor]) location.hash = link("workload", rows[cursor][F.namespace], rows[cursor][F.name]);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [rows, cursor]);
  const total = tables.workloads.size;
  const isFiltered = Object.keys(NONE).some((name) => chosen[name]);
  const clear = () => set(NONE);
  return html`<${Card} class="fill" title="Workloads"
    aside=${html`<span id="count" aria-live="polite">${count(rows.length)}${rows.length === total ? "" : ` of ${count(total)}`}${connection.listed.has("workloads") ? "" : " so far …"}</span>`}>
    <div class="filters" role="search">
      <input ref=${search} type="search" placeholder="Filter by name, kind or reason  ( / )" aria-label="Filter" value=${chosen.text}
        onInput=${(event) => set({ text: event.target.value })} />
      <select aria-label="State" value=${chosen.state} onChange=${(event) => set({ state: event.target.value })}>
        <option value="">State</option><option value="active">not finished</option>
        ${Object.keys(STATES).map((name) => html`<option value=${name}>${name}</option>`)}</select>
      <${Choice} name="namespace" label="Namespace" values=${options.namespaces} set=${set} chosen=${chosen} />
      <${Choice} name="queue" label="Queue" values=${options.queues} set=${set} chosen=${chosen} />
      <${Choice} name="user" label="User" values=${options.users} set=${set} chosen=${chosen} />
      <${Choice} name="priority" label="Priority" values=${options.priorities} set=${set} chosen=${chosen} />
      ${isFiltered && html`<button onClick=${clear}>Clear</button>`}
    </div>
    ${rows.length ? html`<${Rows} rows=${rows} chosen=${chosen} set=${set} cursor=${cursor} />`
      : total ? html`<${Empty} title="Nothing matches this filter">Remove a word, or <button class="text" onClick=${clear}>clear the filter</button>.<//>`
        : html`<${Empty} title="No workloads yet">${connection.listed.has("workloads") ? html`Submit one with <code>pykueue submit --queue NAME -- COMMAND</code>, or with the button above.` : "The list is loading."}<//>`}
  <//>`;
}

const COLUMNS = [["state", "State"], ["name", "Job"], ["namespace", "Namespace"], ["queue", "Queue"], ["priority", "Priority"],
  ["", "Requests"], ["time", "Waits / runs"], ["age", "Age"], ["", "Reason"]];
const NUMBERS = ["priority", "time", "age"];

function Rows({ rows, chosen, set, cursor }) {
  const viewport = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const element = viewport.current;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => { element.removeEventListener("scroll", measure); observer.disconnect(); };
  }, []);
  useEffect(() => {
    const element = viewport.current;
    if (cursor < 0) return;
    if (cursor * ROW < element.scrollTop) element.scrollTop = cursor * ROW;
    if ((cursor + 2) * ROW > element.scrollTop + element.clientHeight) element.scrollTop = (cursor + 2) * ROW - element.clientHeight;
  }, [cursor]);
  const first = Math.max(0, Math.floor(view.top / ROW) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + OVERSCAN);
  const sortBy = (name) => name && set(chosen.sort === name ? { reverse: !chosen.reverse } : { sort: name, reverse: false });
  return html`<div class="table workloads" role="table" aria-rowcount=${rows.length + 1} aria-label="Workloads">
    <div class="row head" role="row" aria-rowindex="1">${COLUMNS.map(([name, label]) => html`<div role="columnheader" class=${NUMBERS.includes(name) ? "number" : ""}
      aria-sort=${chosen.sort === name ? (chosen.reverse ? "descending" : "ascending") : "none"}>
      ${name ? html`<button class="text" onClick=${() => sortBy(name)}>${label}${chosen.sort === name ? (chosen.reverse ? " ↓" : " ↑") : ""}</button>` : label}</div>`)}</div>
    <div class="scroll" ref=${viewport} role="rowgroup" tabindex="0" aria-label="List of workloads">
      <div role="presentation" style=${{ height: `${rows.length * ROW}px`, position: "relative" }}>
        ${rows.slice(first, last).map((row, index) => html`<${Row} key=${row[F.uid]} row=${row} at=${first + index} isChosen=${first + index === cursor} />`)}
      </div>
    </div></div>`;
}

function Row({ row, at, isChosen }) {
  return html`<div class=${`row ${isChosen ? "chosen" : ""}`} role="row" aria-rowindex=${at + 2} style=${{ transform: `translateY(${at * ROW}px)` }}>
    <div role="cell"><${State} state=${row[F.state]} /></div>
    <div role="cell" title=${row[F.name]}><a class="strong whole" href=${link("workload", row[F.namespace], row[F.name])}>${title(row)}</a> <span class="muted">${row[F.jobKind]}</span></div>
    <div role="cell">${row[F.namespace]}</div>
    <div role="cell">${row[F.queue]}</div>
    <div role="cell" class="number">${row[F.priorityClass] || row[F.priority]}</div>
    <div role="cell">${requestText(row[F.requests])}${row[F.pods] > 1 ? html` <span class="muted">${row[F.pods]} pods</span>` : ""}</div>
    <div role="cell" class="number">${duration(elapsed(row))}</div>
    <div role="cell" class="number">${duration(now() - row[F.created])}</div>
    <div role="cell" class="muted" title=${row[F.message]}>${shortReason(row[F.message])}</div>
  </div>`;
}
