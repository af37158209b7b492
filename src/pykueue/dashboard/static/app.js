// The page: log in, follow the stream, and show the view that the address names.

import { redeemCode, session } from "./api.js";
import { connection, follow, logOut, setState, tables, useTables } from "./store.js";
import { Dialog, html, render, useEffect, useMay, useState } from "./ui.js";
import { Cluster } from "./cluster.js";
import { Queue, Queues } from "./queues.js";
import { Workloads } from "./workloads.js";
import { Workload } from "./workload.js";
import { Nodes } from "./nodes.js";
import { Preemptions } from "./preemptions.js";
import { Simulation } from "./simulation.js";
import { Submit } from "./submit.js";

const VIEWS = [["cluster", "Cluster"], ["queues", "Queues"], ["workloads", "Workloads"], ["nodes", "Nodes"], ["preemptions", "Preemptions"], ["simulation", "Simulation"]];

// Theme: that of the system, unless the user has chosen one.
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => localStorage.getItem("pykueue-theme") || (dark.matches ? "dark" : "light");
const applyTheme = () => { document.documentElement.dataset.theme = theme(); };
dark.addEventListener("change", applyTheme);
applyTheme();

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(query || "")) };
}

function View({ parts, query }) {
  switch (parts[0]) {
    case "queues": return parts[1] ? html`<${Queue} key=${parts[1]} name=${parts[1]} />` : html`<${Queues} />`;
    case "workloads": return html`<${Workloads} query=${query} />`;
    case "workload": return html`<${Workload} key=${parts.join("/")} namespace=${parts[1]} name=${parts[2]} />`;
    case "nodes": return html`<${Nodes} />`;
    case "preemptions": return html`<${Preemptions} />`;
    case "simulation": return html`<${Simulation} />`;
    default: return html`<${Cluster} />`;
  }
}

function App({ problem }) {
  useTables("connection");
  const [at, setAt] = useState(route());
  const [dialog, setDialog] = useState("");
  // A dialog says that it has closed a moment later, when another one may be open.
  const close = (name) => setDialog((open) => (open === name ? "" : open));
  const [, redraw] = useState(0);
  useEffect(() => {
    const onHash = () => { setAt(route()); scrollTo(0, 0); };
    let isGoing = false;
    const onKey = (event) => {
      if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setDialog("help");
      if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1000); return; }
      const view = isGoing && VIEWS.find(([name]) => name[0] === event.key);
      if (view) location.hash = `#/${view[0]}`;
      isGoing = false;
    };
    addEventListener("hashchange", onHash);
    addEventListener("keydown", onKey);
    return () => { removeEventListener("hashchange", onHash); removeEventListener("keydown", onKey); };
  }, []);
  if (connection.state === "login" || !session.token) return html`<${LogIn} problem=${connection.message || problem} />`;
  const active = at.parts[0] === "workload" ? "workloads" : at.parts[0] || "cluster";
  const toggle = () => { localStorage.setItem("pykueue-theme", theme() === "dark" ? "light" : "dark"); applyTheme(); redraw((count) => count + 1); };
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/cluster"><img src="/dashboard/icon.svg" alt="" width="22" height="22" />pykueue</a>
      <nav aria-label="Views">${VIEWS.map(([name, label]) => html`<a href=${`#/${name}`} aria-current=${active === name ? "page" : undefined}>${label}</a>`)}</nav>
      <div class="tools">
        <${Connection} />
        <${SubmitButton} onClick=${() => setDialog("submit")} />
        <button class="icon" aria-label=${theme() === "dark" ? "Light theme" : "Dark theme"} title="Theme" onClick=${toggle}>${theme() === "dark" ? "☀" : "☾"}</button>
        <button class="icon" aria-label="Help" title="Keys (?)" onClick=${() => setDialog("help")}>?</button>
        <button class="icon wide" aria-label="Log out" title=${`Log out ${connection.user}`} onClick=${logOut}><svg width="15" height="15" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true"><path d="M6 2H3v12h3M10 5l3 3-3 3M13 8H6" /></svg></button>
      </div>
    </header>
    ${connection.state === "lost" && html`<div class="lost" role="alert">Connection lost: ${connection.message} What you see is from before; trying again.</div>`}
    <main id="main" tabindex="-1"><${View} ...${at} /></main>
    ${dialog === "submit" && html`<${Submit} onClose=${() => close("submit")} />`}
    ${dialog === "help" && html`<${Help} onClose=${() => close("help")} />`}`;
}

function Connection() {
  useTables("connection");
  const words = { live: "live", connecting: "connecting", lost: "lost" };
  return html`<span class=${`connection ${connection.state}`} role="status" title=${`${connection.user} on pykueue ${connection.version}`}><i aria-hidden="true"></i>${words[connection.state] || connection.state}<span class="wide muted">${connection.user}</span></span>`;
}

function SubmitButton({ onClick }) {
  useTables("localqueues");
  const first = tables.localqueues.values().next().value;
  const mayCreate = useMay("create", "batch", "jobs", first ? first.namespace : "default");
  return first && mayCreate ? html`<button class="primary" onClick=${onClick}>Submit</button>` : null;
}

function Help({ onClose }) {
  const keys = [["g then c, q, w, n, p, s", "go to a view"], ["/", "filter workloads"], ["j, k", "next or previous workload"], ["Enter", "open it"], ["?", "this list"], ["Esc", "leave a field or a dialog"]];
  return html`<${Dialog} title="Keys" closing="Close" onClose=${onClose}><dl class="keys">${keys.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl><//>`;
}

function LogIn({ problem }) {
  const [token, setToken] = useState("");
  const logIn = (event) => {
    event.preventDefault();
    session.token = token.trim();
    setState("connecting");
    follow();
  };
  return html`<main class="login"><form onSubmit=${logIn}>
    <h1><img src="/dashboard/icon.svg" alt="" width="32" height="32" />pykueue</h1>
    ${problem && html`<p class="error" role="alert">${problem}</p>`}
    <label>Bearer token<input type="password" autocomplete="off" value=${token} onInput=${(event) => setToken(event.target.value)} autofocus /></label>
    <button class="primary" disabled=${!token.trim()}>Log in</button>
    <p class="muted"><code>pykueue dashboard</code> prints a new link that logs you in. On a cluster, <code>kubectl create token NAME</code> prints a token of a service account.</p>
  </form></main>`;
}

const problem = await redeemCode();
if (!session.token) setState("login", problem);
else follow();
render(html`<${App} problem=${problem} />`, document.getElementById("app"));
