// Who preempted whom, why, and how much work was lost.

import { F, now, tables, useClock, useTables } from "./store.js";
import { Card, Empty, Tile, clockTime, count, duration, html, link, requestText } from "./ui.js";

export function Preemptions() {
  useTables("preemptions", "workloads");
  useClock(10);
  const rows = [...tables.preemptions.values()].sort((first, second) => second.at - first.at);
  const byUid = new Map();
  const wanted = new Set(rows.map((row) => row.by));
  for (const row of tables.workloads.values()) if (wanted.has(row[F.uid])) byUid.set(row[F.uid], row);
  if (!rows.length) return html`<${Card} title="Preemptions"><${Empty} title="Nobody was preempted">When a workload takes the quota of another one, it is shown here.<//><//>`;
  const lastHour = rows.filter((row) => row.at > now() - 3600);
  const lost = lastHour.reduce((sum, row) => sum + (row.ran || 0), 0);
  const reasons = new Map();
  for (const row of rows) reasons.set(row.why || row.reason, (reasons.get(row.why || row.reason) || 0) + 1);
  return html`<div class="tiles"><${Tile} label="Last hour" value=${count(lastHour.length)} note="preemptions" />
      <${Tile} label="Lost work" value=${duration(lost) || "0s"} note="run time, last hour" />
      ${[...reasons].slice(0, 3).map(([reason, number]) => html`<${Tile} label=${reason} value=${count(number)} note="of those below" />`)}</div>
    <${Card} title="Preemptions" aside=${html`<span class="muted">the latest ${count(rows.length)}</span>`}><div class="scroll-x"><table id="preemptions" aria-label="Preemptions"><thead><tr><th>When</th><th>Preempted</th><th>By</th><th class="wide">Why</th><th class="number">Lost work</th><th class="wide">Requests</th></tr></thead>
      <tbody>${rows.slice(0, 200).map((row) => {
        const by = byUid.get(row.by), victim = tables.workloads.get(`${row.namespace}/${row.name}`);
        const requests = victim && !Object.keys(row.requests).length ? victim[F.requests] : row.requests;
        return html`<tr key=${`${row.namespace}/${row.name}@${row.at}`}><td>${clockTime(row.at)}</td>
          <td><a class="strong" href=${link("workload", row.namespace, row.name)}>${row.job || (victim && victim[F.job]) || row.name}</a> <span class="muted">${row.namespace}</span></td>
          <td>${by ? html`<a class="strong" href=${link("workload", by[F.namespace], by[F.name])}>${by[F.job] || by[F.name]}</a> <span class="muted">${by[F.namespace]}</span>` : html`<span class="muted">a workload that is gone, or not yours</span>`}<div class="narrow muted">${row.why || row.reason}</div></td>
          <td class="wide">${row.why || row.reason}</td><td class="number">${row.ran === null ? "–" : duration(row.ran)}</td><td class="wide">${requestText(requests)}</td></tr>`;
      })}</tbody></table></div><//>`;
}
