// The rows that the server sends, as tables, and the state of the connection.

import { useEffect, useState } from "./vendor/hooks.js";
import { lines, session } from "./api.js";

export const FIELDS = ["uid", "namespace", "name", "queue", "clusterQueue", "state", "priority", "priorityClass",
  "jobKind", "job", "user", "created", "reserved", "admitted", "finished", "requests", "pods", "message", "evictions",
  "cluster"];
export const F = Object.fromEntries(FIELDS.map((name, index) => [name, index]));

const PLURALS = ["clusterqueues", "localqueues", "cohorts", "resourceflavors", "topologies", "nodes", "workloads",
  "pods", "preemptions"];
export const tables = Object.fromEntries(PLURALS.map((name) => [name, new Map()]));
export const history = { short: null, long: null };
export const connection = { state: "connecting", user: "", mode: "", version: "", scope: {}, message: "", ready: false, listed: new Set(), skew: 0 };

const versions = Object.fromEntries([...PLURALS, "history", "connection"].map((name) => [name, 0]));
const listeners = new Set();
const touched = new Set();
let isScheduled = false;

// Tell the views what has changed, four times a second at most: drawing costs more than reading.
function touch(name) {
  versions[name] += 1;
  touched.add(name);
  if (isScheduled) return;
  isScheduled = true;
  const tell = () => {
    isScheduled = false;
    const names = new Set(touched);
    touched.clear();
    for (const listener of [...listeners]) listener(names);
  };
  // A hidden page gets no animation frames.
  setTimeout(() => (document.hidden ? tell() : requestAnimationFrame(tell)), document.hidden ? 1000 : 30);
}

// Draws a component again when one of these tables changes. Returns a number that changes with them.
export function useTables(...names) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = (changed) => { if (names.some((name) => changed.has(name))) redraw((count) => count + 1); };
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, names);
  return names.map((name) => versions[name]).join(".");
}

// Draws a component again every `seconds`, for ages and durations.
export function useClock(seconds = 1) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) redraw((count) => count + 1); }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}

// The time of the server, in seconds.
export const now = () => Date.now() / 1000 + connection.skew;

// One copy of each text that many rows share.
const texts = new Map();
function shared(text) {
  if (text.length > 40) return text;
  const known = texts.get(text);
  if (known !== undefined) return known;
  if (texts.size > 20000) texts.clear();
  texts.set(text, text);
  return text;
}
const requestTexts = new Map();
function sharedRequests(requests) {
  const text = JSON.stringify(requests);
  if (!requestTexts.has(text)) {
    if (requestTexts.size > 5000) requestTexts.clear();
    requestTexts.set(text, requests);
  }
  return requestTexts.get(text);
}
const SHARED = ["namespace", "queue", "clusterQueue", "state", "priorityClass", "jobKind", "user", "message", "cluster"].map((name) => F[name]);

function applyRows(message) {
  const table = tables[message.rows];
  if (!table) return;
  if (message.reset) table.clear();
  const isWorkload = message.rows === "workloads";
  for (const [key, row] of message.set) {
    if (isWorkload) {
      for (const index of SHARED) row[index] = shared(row[index]);
      row[F.requests] = sharedRequests(row[F.requests]);
    }
    table.set(key, row);
  }
  for (const key of message.del) table.delete(key);
  touch(message.rows);
}

function addSample(ring, sample, most) {
  if (!ring) return;
  const length = ring.times.push(sample.at);
  for (const name of new Set([...Object.keys(ring.series), ...Object.keys(sample.values)])) {
    const series = ring.series[name] || (ring.series[name] = new Array(length - 1).fill(null));
    series.push(sample.values[name] ?? null);
  }
  if (length > most) {
    ring.times.splice(0, length - most);
    for (const series of Object.values(ring.series)) series.splice(0, length - most);
  }
}

function apply(message) {
  if (message.rows) applyRows(message);
  else if (message.hello) {
    const { user, mode, version, scope } = message.hello;
    Object.assign(connection, { user, mode, version, scope, skew: message.hello.now - Date.now() / 1000 });
    touch("connection");
  } else if (message.listed) {
    for (const plural of message.listed) connection.listed.add(plural);
    message.listed.forEach(touch);
  } else if (message.history) {
    Object.assign(history, message.history);
    touch("history");
  } else if (message.sample) {
    addSample(history.short, message.sample, 360);
    if (message.sample.long) addSample(history.long, message.sample.long, 2016);
    touch("history");
  } else if (message.ready) {
    connection.ready = true;
    setState("live");
  }
}

export function setState(state, message = "") {
  if (connection.state === state && connection.message === message) return;
  Object.assign(connection, { state, message });
  touch("connection");
}

const SILENCE_SECONDS = 15;
let isRunning = false;

// Read the stream until the user logs out; after a failure try again, at growing intervals.
export async function follow() {
  if (isRunning) return;
  isRunning = true;
  let failures = 0;
  while (session.token) {
    const controller = new AbortController();
    let timer = 0;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), SILENCE_SECONDS * 1000);
    };
    try {
      alive();
      for await (const line of lines("/dashboard/stream", controller.signal)) {
        alive();
        failures = 0;
        if (line) apply(JSON.parse(line));
      }
      setState("lost", "The server has ended the connection.");
    } catch (error) {
      if (error.code === 401) {
        session.token = "";
        setState("login", "This token is not valid, or no longer.");
        break;
      }
      if (error.code === 403) {
        setState("login", error.message);
        session.token = "";
        break;
      }
      setState("lost", error.name === "AbortError" ? "The server is silent." : error.message);
    } finally {
      clearTimeout(timer);
    }
    failures += 1;
    await new Promise((resolve) => setTimeout(resolve, Math.min(300 * 2 ** failures, 5000)));
  }
  isRunning = false;
}

export function logOut() {
  session.token = "";
  for (const table of Object.values(tables)) table.clear();
  connection.ready = false;
  setState("login");
  location.reload();
}
