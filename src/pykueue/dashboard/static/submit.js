// A dialog that creates a Job, as `pykueue submit` does.

import { tables } from "./store.js";
import { call, get, paths } from "./api.js";
import { Dialog, html, useEffect, useState } from "./ui.js";

const FIELDS = { command: "", name: "", cpu: "1", memory: "", gpu: "0", parallelism: "1", image: "local", priority: "" };

function jobOf(form) {
  const requests = { cpu: form.cpu };
  if (form.memory) requests.memory = form.memory;
  if (Number(form.gpu)) requests["nvidia.com/gpu"] = form.gpu;
  const { cpu, ...limits } = requests;
  const labels = { "kueue.x-k8s.io/queue-name": form.queue.split("/")[1] };
  if (form.priority) labels["kueue.x-k8s.io/priority-class"] = form.priority;
  const pods = Number(form.parallelism) || 1;
  const container = { name: "main", image: form.image, command: ["sh", "-c", form.command.replace(/\$(?=[$(])/g, "$$$$")], resources: { requests, limits } };
  return {
    apiVersion: "batch/v1", kind: "Job", metadata: { ...(form.name ? { name: form.name } : { generateName: "job-" }), labels },
    spec: { suspend: true, parallelism: pods, completions: pods, completionMode: pods > 1 ? "Indexed" : "NonIndexed", backoffLimit: 0,
      template: { spec: { restartPolicy: "Never", containers: [container] } } },
  };
}

export function Submit({ onClose }) {
  const queues = [...tables.localqueues.keys()].sort();
  const [form, setForm] = useState({ ...FIELDS, queue: queues[0] || "" });
  const [classes, setClasses] = useState([]);
  const [error, setError] = useState("");
  useEffect(() => { get(paths.priorityClasses()).then((answer) => setClasses(answer.items || []), () => setClasses([])); }, []);
  const field = (name) => ({ value: form[name], onInput: (event) => setForm({ ...form, [name]: event.target.value }) });
  const submit = async () => {
    try {
      await call("POST", paths.jobs(form.queue.split("/")[0]), jobOf(form));
      onClose();
      location.hash = "#/workloads";
    } catch (failure) { setError(failure.message); }
  };
  return html`<${Dialog} title="Submit a job" onClose=${onClose} onEnter=${submit} actions=${html`<button class="primary" disabled=${!form.command || !form.queue}>Submit</button>`}>
    ${!queues.length && html`<p class="error">There is no LocalQueue that you may use.</p>`}
    <label>Command<textarea rows="2" placeholder="python train.py" ...${field("command")}></textarea></label>
    <div class="fields"><label>Queue<select ...${field("queue")}>${queues.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <label>Name<input placeholder="generated" ...${field("name")} /></label></div>
    <div class="fields"><label>CPUs<input ...${field("cpu")} /></label><label>Memory<input placeholder="4Gi" ...${field("memory")} /></label>
      <label>GPUs<input type="number" min="0" ...${field("gpu")} /></label><label>Pods<input type="number" min="1" ...${field("parallelism")} /></label></div>
    <div class="fields"><label>Image<input ...${field("image")} /></label>
      ${classes.length > 0 && html`<label>Priority<select ...${field("priority")}><option value="">none</option>${classes.map((entry) => html`<option value=${entry.metadata.name}>${entry.metadata.name}</option>`)}</select></label>`}</div>
    ${error && html`<p class="error" role="alert">${error}</p>`}<//>`;
}
