// A report of `pykueue simulate`, opened from a file. Nothing of it is sent to the server.

import { Card, Empty, html, useState } from "./ui.js";

// A report is shown without its scripts and what needs them, such as the chart of all jobs: this page runs no
// script but its own.
function asDocument(text) {
  // The policy of this page refuses styles in the text, but not those that a script sets.
  const plain = text.replaceAll(' style="', ' data-style="').replaceAll("<style>", "<textarea data-rules>").replaceAll("</style>", "</textarea>");
  const inert = new DOMParser().parseFromString(policy.createHTML(plain), "text/html");
  const rules = [...inert.querySelectorAll("[data-rules]")].map((element) => { element.remove(); return element.textContent; }).join("\n");
  for (const element of inert.querySelectorAll("canvas")) (element.closest("section") || element).remove();
  for (const element of inert.querySelectorAll("script, iframe, object, embed, link, meta, base, form, button, input")) element.remove();
  for (const element of inert.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) if (/^on/i.test(name) || /^\s*javascript:/i.test(value)) element.removeAttribute(name);
    element.removeAttribute("style");
  }
  return { body: inert.body, rules };
}
const policy = globalThis.trustedTypes ? trustedTypes.createPolicy("report", { createHTML: (text) => text }) : { createHTML: (text) => text };

// A report has the colours of the page around it, and charts that can be read on a phone.
const ownLook = new CSSStyleSheet();
ownLook.replaceSync(`:host { --page: transparent !important; --card: inherit !important; --line: inherit !important; --text: inherit !important; --muted: inherit !important; }
  @media (max-width: 720px) { section { overflow-x: auto; } section > svg, figure > svg { min-width: 640px; } }`);

export function Simulation() {
  const [report, setReport] = useState(null);
  const [error, setError] = useState("");
  const read = async (file) => {
    if (!file) return;
    setError("");
    const text = await file.text();
    if (!/<html|<!doctype/i.test(text.slice(0, 2000))) { setError(`${file.name} is not a report of pykueue simulate.`); return; }
    setReport({ name: file.name, ...asDocument(text) });
  };
  const drop = (event) => { event.preventDefault(); read(event.dataTransfer.files[0]); };
  const show = (element) => {
    if (!element || element.shadowRoot) return;
    const root = element.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(report.rules.replace(/:root(\[[^\]]*\])?/g, (_, theme) => (theme ? `:host(${theme})` : ":host")));
    element.dataset.theme = document.documentElement.dataset.theme;
    root.adoptedStyleSheets = [sheet, ownLook];
    root.append(...report.body.childNodes);
    for (const styled of root.querySelectorAll("[data-style]")) styled.style.cssText = styled.dataset.style;
  };
  return html`<${Card} title="Simulation" aside=${report && html`<span class="muted">${report.name}</span>`}>
    <label class="drop" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>Open a report, or drop it here
      <input type="file" accept=".html,text/html" aria-label="Report file" onChange=${(event) => read(event.target.files[0])} /></label>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${report && html`<p class="muted">Open the file itself in the browser for the chart of all jobs.</p>`}
    ${report ? html`<div class="report" key=${report.name} ref=${show}></div>`
      : html`<${Empty} title="What would happen if …">Make a report with <code>pykueue simulate</code>, and open it here. The file stays on this machine.<//>`}<//>`;
}
