// What the views are made of: elements, texts for numbers and times, quota bars, plots, dialogs.

import { h, render } from "./vendor/preact.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import uPlot from "./vendor/uplot.js";
import { may } from "./api.js";

export const html = htm.bind(h);
export { render, useEffect, useMemo, useRef, useState };

// Numbers and times

const BYTES = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
const isBytes = (resource) => /memory|storage|hugepages/.test(resource);

export function amount(resource, value) {
  if (value === null || value === undefined) return "–";
  if (isBytes(resource)) {
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < BYTES.length - 1) { value /= 1024; unit += 1; }
    return unit ? `${trimmed(value)} ${BYTES[unit]}` : `${trimmed(value)}`;
  }
  return value >= 100000 ? `${trimmed(value / 1000)} k` : trimmed(value);
}

const trimmed = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toFixed(2))));
export const count = (value) => Number(value || 0).toLocaleString("en");
export const shortName = (resource) => resource.split("/").pop();

// Devices first: they are what jobs wait for.
const rankOf = (name) => (name.includes("/") ? 0 : name === "cpu" ? 1 : 2);
export function requestText(requests) {
  return Object.entries(requests).sort(([first], [second]) => rankOf(first) - rankOf(second)).map(([name, value]) => `${amount(name, value)} ${shortName(name)}`).join(", ");
}

export function duration(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${Math.floor(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

export const clockTime = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleTimeString([], { hour12: false }) : "");
// When a pending workload may start, as the server estimates it, with the bar of nine of ten cases.
export function startText(estimate) {
  if (!estimate) return "";
  if (estimate.unknown) return "unknown";
  const [first, middle, last] = ["p05", "p50", "p95"].map((name) => Math.max(0, stamp(estimate[name]) - Date.now() / 1000));
  if (last < 1) return "at once";
  const bar = duration(first) === duration(last) ? "" : ` (${duration(first)} to ${duration(last)})`;
  return `in ${duration(middle)}${bar}`;
}
// The part of a reason that differs from one workload to the next.
export const shortReason = (message) => message.replace(/^couldn't assign flavors to pod set \S+: /, "")
  .replace(/insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed/g, (_, resource, flavor, more) => `${more} more ${shortName(resource)} of ${flavor} needed`);
export const stamp = (text) => (text ? Date.parse(text) / 1000 : 0);

// States of workloads: each has a sign beside its colour

export const STATES = {
  pending: ["○", "pending"], reserved: ["◔", "reserved"], starting: ["◑", "starting"], running: ["▶", "running"],
  stopping: ["◐", "stopping"], stopped: ["■", "stopped"], finished: ["✓", "finished"], failed: ["✕", "failed"],
};

export function State({ state }) {
  const [sign, text] = STATES[state] || ["?", state];
  return html`<span class=${`state ${state}`}><i aria-hidden="true">${sign}</i>${text}</span>`;
}

// Layout

export const Empty = ({ title, children }) => html`<div class="empty"><b>${title}</b><p>${children}</p></div>`;
export const Card = ({ title, aside, children, class: name = "" }) => html`
  <section class=${`card ${name}`}>
    ${(title || aside) && html`<header><h2>${title}</h2><div class="aside">${aside}</div></header>`}
    ${children}
  </section>`;
export const Tile = ({ label, value, note }) => html`
  <div class="tile"><span class="label">${label}</span><span class="value">${value}</span><span class="note">${note}</span></div>`;

// A quota bar. `whole` is what the track stands for.
export function QuotaBar({ resource, nominal, reserved, used, borrowed, lent = 0, whole }) {
  const size = Math.max(whole, reserved, nominal, 1e-9);
  const part = (value) => `${Math.max(0, Math.min(100, (value / size) * 100))}%`;
  const own = Math.min(reserved, nominal);
  const text = `${amount(resource, reserved)} of ${amount(resource, nominal)} ${resource} reserved`
    + (borrowed > 0 ? `, ${amount(resource, borrowed)} borrowed` : "") + (lent > 0 ? `, ${amount(resource, lent)} lent` : "")
    + `, ${amount(resource, used)} used by admitted workloads`;
  return html`<div class="bar" role="img" aria-label=${text} title=${text}>
    <div class="fill own" style=${{ width: part(own) }}></div>
    <div class="fill used" style=${{ width: part(Math.min(used, own)) }}></div>
    ${lent > 0 && html`<div class="fill lent" style=${{ left: part(Math.max(own, nominal - lent)), width: part(Math.min(lent, nominal - own)) }}></div>`}
    ${borrowed > 0 && html`<div class="fill borrowed" style=${{ left: part(own), width: part(borrowed) }}></div>`}
    ${nominal < size * 0.999 && html`<div class="mark" style=${{ left: part(nominal) }}></div>`}
  </div>`;
}

export const Legend = () => html`<p class="legend">
  <span><i class="swatch used"></i>used</span><span><i class="swatch own"></i>reserved</span>
  <span><i class="swatch borrowed"></i>borrowed</span><span><i class="swatch lent"></i>lent</span>
  <span><i class="swatch mark"></i>nominal quota</span></p>`;

// Plots

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const SERIES_COLORS = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6"];

function hour(at, times) {
  const text = new Date(at * 1000);
  if (times[times.length - 1] - times[0] > 86400) return text.toLocaleDateString("en", { month: "short", day: "numeric" });
  return text.toLocaleTimeString("en", { hour12: false, hour: "2-digit", minute: "2-digit", ...(at % 60 ? { second: "2-digit" } : {}) });
}

// Steps between the lines of a plot, so that no two lines have the same text.
const decades = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].flatMap((power) => [power, 2 * power, 5 * power]);
const STEPS = { number: decades, percent: decades, time: [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400, 172800, 432000, 864000] };
const FORMATS = { number: (value) => count(Math.round(value * 100) / 100), percent: (value) => `${Math.round(value)} %`, time: (value) => duration(value) };

// `series` is [{ label, values, isSparse }]; `times` are seconds; `unit` is that of the values.
export function Plot({ times, series, height = 150, label, unit = "number" }) {
  const format = FORMATS[unit];
  const element = useRef(null);
  const plot = useRef(null);
  const names = series.map((entry) => entry.label).join("\n");
  const theme = document.documentElement.dataset.theme;
  useEffect(() => {
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui", size: unit === "number" ? 44 : 58 };
    const options = {
      width: element.current.clientWidth || 300, height, legend: { show: false }, cursor: { y: false },
      padding: [8, 28, 0, 0],
      axes: [{ ...axis, size: 26, space: 70, values: (_plot, ticks) => ticks.map((tick) => hour(tick, times)) }, { ...axis, incrs: STEPS[unit], values: (_plot, ticks) => ticks.map(format) }],
      scales: { y: { range: (_plot, low, high) => [0, Math.max(high * 1.1, unit === "percent" ? 105 : 1) || 1] } },
      series: [{}, ...series.map((entry, index) => ({
        label: entry.label, stroke: color(SERIES_COLORS[index % 6]), width: 1.75, points: { show: entry.isSparse, size: 4 }, spanGaps: Boolean(entry.isSparse),
        fill: series.length === 1 ? `${color(SERIES_COLORS[0])}22` : undefined, dash: index % 2 ? [6, 3] : undefined,
      }))],
    };
    plot.current = new uPlot(options, [times, ...series.map((entry) => entry.values)], element.current);
    const target = element.current, drawn = plot.current;
    const observer = new ResizeObserver(() => target.clientWidth && drawn.setSize({ width: target.clientWidth, height }));
    observer.observe(target);
    return () => { observer.disconnect(); drawn.destroy(); };
  }, [names, height, theme]);
  useEffect(() => { plot.current.setData([times, ...series.map((entry) => entry.values)]); });
  const last = series.map((entry) => [...entry.values].reverse().find((value) => value !== null));
  return html`<figure class="plot">
    <figcaption>${label}${series.map((entry, index) => html`
      <span><i class=${`line s${(index % 6) + 1}`}></i>${entry.label} <b>${last[index] === undefined ? "–" : format(last[index])}</b></span>`)}
    </figcaption><div ref=${element} role="img" aria-label=${`${label || ""} ${names}`}></div></figure>`;
}

// Rights and dialogs

export function useMay(verb, group, resource, namespace = "") {
  const [isAllowed, setAllowed] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    setAllowed(false);
    may(verb, group, resource, namespace).then((answer) => isCurrent && setAllowed(answer));
    return () => { isCurrent = false; };
  }, [verb, group, resource, namespace]);
  return isAllowed;
}

// Enter in a field calls `onEnter`; `actions` are the buttons beside the one that closes.
export function Dialog({ title, onClose, onEnter, children, actions, closing = "Cancel" }) {
  const element = useRef(null);
  useEffect(() => { element.current.showModal(); }, []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose} onClick=${(event) => event.target === element.current && onClose()}>
    <form method="dialog" onSubmit=${(event) => { event.preventDefault(); if (onEnter) onEnter(); }}>
      <h2>${title}</h2>${children}
      <footer><button type="button" onClick=${onClose}>${closing}</button>${actions}</footer>
    </form></dialog>`;
}

// A button that does something on the server, asks first if `confirm` is set, and shows a refusal.
export function Action({ label, confirm, run, danger = false, onDone }) {
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    setError("");
    try {
      await run();
      setOpen(false);
      if (onDone) onDone();
    } catch (failure) {
      setError(failure.message);
      setOpen(true);
    }
    setBusy(false);
  };
  const name = danger ? "danger" : "";
  return html`<button class=${name} disabled=${isBusy} onClick=${() => (confirm ? setOpen(true) : act())}>${label}</button>
    ${isOpen && html`<${Dialog} title=${label} onClose=${() => setOpen(false)}
      actions=${html`<button type="button" class=${`primary ${name}`} disabled=${isBusy} onClick=${act}>${label}</button>`}>
      ${confirm && html`<p>${confirm}</p>`}${error && html`<p class="error" role="alert">${error}</p>`}<//>`}`;
}

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
