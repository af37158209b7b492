// A report of `pykueue simulate`, opened from a file. Nothing of it is sent to the server.

import { Card, Empty, html, useState } from "./ui.js";

// A report is shown without its scripts: this page runs no script but its own.
function asDocument(text) {
  const inert = new DOMParser().parseFromString(policy.createHTML(text), "text/html");
  for (const element of inert.querySelectorAll("script, iframe, object, embed, link, meta, base, form")) element.remove();
  for (const element of inert.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) if (/^on/i.test(name) || /^\s*javascript:/i.test(value)) element.removeAttribute(name);
  }
  return inert;
}
const policy = globalThis.trustedTypes ? trustedTypes.createPolicy("report", { createHTML: (text) => text }) : { createHTML: (text) => text };

export function Simulation() {
  const [report, setReport] = useState(null);
  const [error, setError] = useState("");
  const read = async (file) => {
    if (!file) return;
    setError("");
    const text = await file.text();
    if (!/<html|<!doctype/i.test(text.slice(0, 2000))) { setError(`${file.name} is not a report of pykueue simulate.`); return; }
    setReport({ name: file.name, document: asDocument(text) });
  };
  const drop = (event) => { event.preventDefault(); read(event.dataTransfer.files[0]); };
  const show = (element) => {
    if (!element || element.shadowRoot) return;
    const root = element.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync([...report.document.querySelectorAll("style")].map((style) => style.textContent).join("\n"));
    root.adoptedStyleSheets = [sheet];
    for (const style of report.document.querySelectorAll("style")) style.remove();
    root.append(...report.document.body.childNodes);
  };
  return html`<${Card} title="Simulation" aside=${report && html`<span class="muted">${report.name}</span>`}>
    <label class="drop" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>Open a report, or drop it here
      <input type="file" accept=".html,text/html" aria-label="Report file" onChange=${(event) => read(event.target.files[0])} /></label>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${report ? html`<div class="report" key=${report.name} ref=${show}></div>`
      : html`<${Empty} title="What would happen if …">Make a report with <code>pykueue simulate</code>, and open it here. The file stays on this machine.<//>`}<//>`;
}
