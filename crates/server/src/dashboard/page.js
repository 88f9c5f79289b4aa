// The dashboard: reads the state once per second and shows it with the functions of elements.js.

// Milliseconds without an event after which the connection is made again.
const SILENCE_MAX = 5000;

const storage = { token: "slidegate-token", state: "slidegate-state" };
let token = sessionStorage.getItem(storage.token) || "";
let state = null;
let configText = null;
let configVersion = 0;
let shownPolicy = "";
let shownList = "hottest";
let stream = null;
let openKey = null;

// Sections

function showTotals() {
  const { per_second: now } = state.totals;
  text("allowed", rate(now.allowed));
  text("denied", rate(now.denied));
  text("would", rate(now.would_be_denied));
  text("p99", seconds(state.latency["p99"]));
  text("p50", seconds(state.latency["p50"]));
  const memory = state.memory;
  text("memory-keys", count(memory.keys));
  const share = memory.budget > 0 ? memory.bytes / memory.budget : 0;
  text("memory-text", bytes(memory.bytes) + " of " + bytes(memory.budget));
  byId("memory-share").value = share;
  text("evictions", count(memory.evictions));
  text("overflowed", count(memory.overflowed));
  text("version", "v" + state.version + " · up " + seconds(state.uptime));
}

// The breaker is half-open: one call at a time finds out whether the store replies again.
function isRetried(store) {
  return store.stats["rate_limit_redis_breaker_state"] === 1;
}

function showAlerts() {
  const alerts = [];
  for (const store of state.stores) {
    if (!store.is_available) {
      alerts.push({ id: "store-" + store.name, bad: true, text: `Store “${store.name}” does not reply. The failure mode of each policy decides.` });
    } else if (isRetried(store)) {
      alerts.push({ id: "store-" + store.name, bad: false, text: `Store “${store.name}” did not reply and is being retried. Until it replies, the failure mode of each policy decides.` });
    }
  }
  const last = state.config && state.config.last_reload;
  if (last && !last.ok) {
    alerts.push({ id: "reload", bad: true, text: `The reload at ${clock(last.at)} failed. The previous configuration stays in use.`, more: last.message });
  }
  if (state.memory.budget > 0 && state.memory.bytes / state.memory.budget > 0.9) {
    alerts.push({ id: "memory", bad: false, text: "More than 90 % of the memory budget is in use. When it is full, new keys share counters, replace other keys or are denied." });
  }
  rows(byId("alerts"), alerts, (alert) => alert.id, () => make("div", {}, make("p"), make("pre")), (row, alert) => {
    row.className = alert.bad ? "alert bad" : "alert";
    cell(row, 0, alert.text);
    cell(row, 1, alert.more || "");
    row.children[1].hidden = !alert.more;
  });
}

function modeTag(policy) {
  switch (policy.mode) {
    case "shadow": return ["shadow", "warn"];
    case "percentage": return [`${policy.percent} % of keys`, "warn"];
    case "off": return ["off", ""];
    default: return policy.is_active ? ["", ""] : ["removed", ""];
  }
}

function showPolicies() {
  const body = byId("policy-rows");
  const create = () => {
    const button = make("button", { class: "link", type: "button" });
    const tag = make("span", { class: "tag" });
    const down = make("span", { class: "tag bad" }, "store down");
    const row = make("tr", {}, make("td", {}, make("span", { class: "name" }, button, tag, down)), make("td"), make("td"),
      make("td", { class: "number" }, make("span"), make("small")), make("td", { class: "number" }, make("span"), make("small")), make("td", { class: "number" }, make("span"), make("small")));
    button.addEventListener("click", () => choosePolicy(row.policy));
    return row;
  };
  rows(body, state.policies, (policy) => policy.name + " " + policy.mode, create, (row, policy) => {
    row.policy = policy.name;
    const [button, tag, down] = row.children[0].firstChild.children;
    if (button.textContent !== policy.name) button.textContent = policy.name;
    button.title = policy.origin || "";
    const [mode, kind] = modeTag(policy);
    tag.textContent = mode;
    tag.className = "tag " + kind;
    tag.hidden = !mode;
    down.hidden = policy.is_available !== false;
    cell(row, 1, (policy.quotas || []).map((quota) => quota.text).join(", ") + (policy.algorithm && policy.algorithm !== "log" ? " · " + policy.algorithm : ""));
    const drawn = JSON.stringify(policy.parts);
    if (row.drawn !== drawn) {
      row.drawn = drawn;
      row.children[2].replaceChildren(spark(policy.parts));
    }
    ["allowed", "denied", "would_be_denied"].forEach((name, index) => {
      const [now, sum] = row.children[3 + index].children;
      now.textContent = rate(policy.per_second[name]) + "/s";
      sum.textContent = count(policy.requests[name]) + " in all";
      sum.title = String(policy.requests[name]);
    });
  });
  if (state.policies.length === 0) body.replaceChildren(make("tr", {}, make("td", { colspan: "6", class: "empty" }, "No policies are configured.")));
  const hidden = state.policies_in_all - state.policies.length;
  byId("policies-more").hidden = hidden <= 0;
  text("policies-more", `${hidden} more without requests are not shown.`);
  const select = byId("search-policy");
  rows(select, [{ name: "" }, ...uniquePolicies()], (policy) => policy.name, () => make("option"), (option, policy) => {
    option.value = policy.name;
    option.textContent = policy.name || "All policies";
  });
}

function uniquePolicies() {
  const names = new Set(state.policies.filter((policy) => policy.is_active).map((policy) => policy.name));
  return [...names].sort().map((name) => ({ name }));
}

function percent(part, whole) {
  if (whole === 0) return "0 %";
  const share = (part / whole) * 100;
  return (share > 0 && share < 10 ? share.toFixed(1) : share.toFixed(0)) + " %";
}

function showRollout() {
  const lines = [];
  for (const policy of state.policies) {
    const { allowed, denied, would_be_denied: would } = policy.requests;
    const all = allowed + denied + would;
    if (policy.is_active && (policy.mode === "shadow" || policy.mode === "percentage")) {
      lines.push({ id: policy.name + policy.mode, name: policy.name, tag: modeTag(policy)[0], text: all === 0 ? "no requests yet" : would === 0 ? `enforcing it for all keys would have denied none of ${count(all)} requests` : `enforcing it for all keys would deny ${count(would)} more of ${count(all)} requests (${percent(would, all)})` });
    }
    if (policy.candidate) {
      const { newly_denied: more, newly_allowed: fewer, quotas } = policy.candidate;
      const limits = quotas.map((quota) => quota.text).join(", ");
      lines.push({ id: policy.name + policy.mode + " candidate", name: policy.name, tag: "candidate " + limits, text: all === 0 ? "no requests yet" : `of ${count(all)} requests, it would deny ${count(more)} that passed (${percent(more, all)}) and allow ${count(fewer)} that were denied (${percent(fewer, all)})` });
    }
  }
  byId("rollout").hidden = lines.length === 0;
  rows(byId("rollout-rows"), lines, (line) => line.id, () => make("li", {}, make("b"), " ", make("span", { class: "tag warn" }), " ", make("span")), (row, line) => {
    cell(row, 0, line.name);
    cell(row, 1, line.tag);
    cell(row, 2, line.text);
  });
}

function showKeys() {
  const wanted = byId("search-key").value.trim().toLowerCase();
  const policy = byId("search-policy").value;
  const all = state.keys[shownList];
  const keys = all.filter((key) => (!policy || key.policy === policy) && (!wanted || key.key.toLowerCase().includes(wanted)));
  const body = byId("key-rows");
  const create = () => {
    const button = make("button", { class: "link mono", type: "button" });
    const bar = make("progress", { max: "1" });
    const row = make("tr", {}, make("td", {}, button, make("small", { class: "where" })), make("td"), make("td", { class: "number" }), make("td", { class: "number" }), make("td", {}, make("div", { class: "used" }, bar, make("span"))));
    button.addEventListener("click", () => showKey({ id: row.dataset.key }));
    return row;
  };
  rows(body, keys, (key) => key.id, create, (row, key) => {
    const button = row.children[0].firstChild;
    const shown = key.key.length > 80 ? key.key.slice(0, 79) + "…" : key.key;
    if (button.textContent !== shown) button.textContent = shown;
    const where = key.policy + (key.tier ? " · " + key.tier : "");
    cell(row.children[0], 1, where);
    cell(row, 1, where);
    cell(row, 2, rate(key.per_second));
    cell(row, 3, rate(key.denied_per_second));
    row.children[3].className = key.denied_per_second >= 0.05 ? "number bad" : "number";
    const used = row.children[4].firstChild;
    used.className = key.is_over ? "used over" : "used";
    const units = key.limit - key.remaining;
    used.firstChild.value = key.limit > 0 ? units / key.limit : 0;
    used.firstChild.setAttribute("aria-label", `${units} of ${key.limit} units used`);
    used.lastChild.textContent = `${count(units)} / ${count(key.limit)}`;
  });
  if (keys.length === 0) {
    const reason = all.length > 0 ? "No key in this list matches. “Look up” shows any key by its full text." : "No requests yet. Keys appear here while this page is open.";
    body.replaceChildren(make("tr", {}, make("td", { colspan: "5", class: "empty" }, reason)));
  }
  const one = state.keys.recorded_one_in;
  text("keys-note", all.length === 0 ? "" : one > 1 ? `At this rate one of ${one} requests is recorded: rates of keys are estimates.` : "Every request is recorded at this rate.");
}

const BREAKER = ["closed", "half-open", "open"];

function showStores() {
  const facts = (store) => {
    const stat = (name) => store.stats[name];
    if (store.is_memory) {
      return [["Keys", count(stat("rate_limit_keys") || 0)], ["State", bytes(stat("rate_limit_memory_bytes") || 0)], ["Evicted", count(stat("rate_limit_evictions_total") || 0)], ["Overflowed", count(stat("rate_limit_overflowed_total") || 0)], ["Expired", count(stat("rate_limit_swept_total") || 0)], ["Blocked", count(stat("rate_limit_blocked_keys") || 0)]];
    }
    const latency = state.shared_latency;
    return [["Breaker", BREAKER[stat("rate_limit_redis_breaker_state")] || "–"], ["Calls", count(stat("rate_limit_redis_calls_total") || 0)], ["Degraded", count(stat("rate_limit_redis_degraded_total") || 0)], ["Timeouts", count(stat("rate_limit_redis_timeouts_total") || 0)], ["Broken connections", count(stat("rate_limit_redis_errors_total") || 0)], ["Breaker opened", count(stat("rate_limit_redis_breaker_opened_total") || 0)], ["p50, p99", seconds(latency["p50"]) + ", " + seconds(latency["p99"])], ["By deny cache", count(stat("rate_limit_redis_deny_cache_total") || 0)]];
  };
  rows(byId("store-rows"), state.stores, (store) => store.name, () => make("div", { class: "store" }, make("div", { class: "name" }, make("b"), make("span", { class: "tag" })), make("dl", { class: "facts" })), (row, store) => {
    const [name, tag] = row.firstChild.children;
    name.textContent = store.name;
    const isRetry = isRetried(store);
    tag.textContent = !store.is_available ? "does not reply" : isRetry ? "being retried" : store.is_memory ? "in this process" : "reachable";
    tag.className = !store.is_available ? "tag bad" : isRetry ? "tag warn" : "tag";
    rows(row.lastChild, facts(store), ([label]) => label, ([label]) => make("div", {}, make("dt", {}, label), make("dd")), (fact, [, value]) => cell(fact, 1, value));
  });
}

function showListeners() {
  rows(byId("listener-rows"), state.listeners, (listener) => listener.name, () => make("tr", {}, make("td"), ...[1, 2, 3, 4].map(() => make("td", { class: "number" }))), (row, listener) => {
    [listener.name, `${count(listener.open)} / ${count(listener.max)}`, count(listener.accepted), count(listener.refused), count(listener.cut)].forEach((value, index) => cell(row, index, value));
  });
}

function showConfig() {
  const config = state.config;
  byId("config").hidden = !config;
  if (!config) return;
  const last = config.last_reload;
  const files = config.files.length > 0 ? config.files.join(", ") : "no file";
  const loaded = `Read from ${files}, in use since ${clock(config.version)}. Reloads: ${state.reloads.ok} succeeded, ${state.reloads.failed} failed.`;
  text("config-status", last ? `${loaded} The last one, at ${clock(last.at)}, ${last.ok ? "succeeded" : "failed"}.` : loaded);
  rows(byId("config-warnings"), config.warnings, (warning) => warning, () => make("li", {}, make("span", { class: "tag warn" }, "warning"), " ", make("span")), (row, warning) => cell(row, 1, warning));
  if (config.text !== null && config.text !== configText) {
    configText = config.text;
    const lines = configText.trimEnd().split("\n").map((line) => {
      const at = line.lastIndexOf("  # ");
      const [value, origin] = at > 0 ? [line.slice(0, at), line.slice(at + 4)] : [line, ""];
      return make("tr", {}, make("td", {}, value), make("td", {}, origin));
    });
    byId("config-lines").replaceChildren(...lines);
  }
  configVersion = config.version;
}

function show() {
  byId("sign-in").hidden = true;
  byId("content").hidden = false;
  showAlerts();
  showTotals();
  showPolicies();
  showRollout();
  showKeys();
  showStores();
  showListeners();
  showConfig();
  if (state.charts) {
    chart(byId("chart-requests"), state.charts.requests);
    chart(byId("chart-latency"), state.charts.latency);
  }
}

function choosePolicy(name) {
  shownPolicy = name;
  text("requests-title", name ? "Requests per second: " + name : "Requests per second");
  byId("all-policies").hidden = !name;
  connect();
}

// Server

function headers(extra) {
  return token ? { ...extra, Authorization: "Bearer " + token } : extra || {};
}

function status(kind, value) {
  byId("status").dataset.state = kind;
  text("status", value);
}

async function send(path, body) {
  const reply = await fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) });
  const answer = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    if (reply.status === 401) signIn();
    throw new Error(answer.detail || answer.title || "status " + reply.status);
  }
  return answer;
}

function signIn() {
  if (token) text("sign-in-error", "The token was refused.");
  token = "";
  sessionStorage.removeItem(storage.token);
  byId("content").hidden = true;
  byId("alerts").replaceChildren();
  if (byId("key-dialog").open) byId("key-dialog").close();
  byId("sign-in").hidden = false;
  byId("token").focus();
  status("wait", "locked");
}

// Minutes east of UTC, for the times in charts.
function zone() {
  return -new Date().getTimezoneOffset();
}

function query() {
  const width = (id) => Math.max(280, Math.floor(byId(id).clientWidth || 560));
  return new URLSearchParams({ charts: width("chart-requests") + "," + width("chart-latency"), policy: shownPolicy, zone: zone(), config: configText === null ? 0 : configVersion });
}

// Reads events with fetch: an EventSource cannot send a token.
async function connect() {
  if (stream) stream.abort();
  const own = new AbortController();
  stream = own;
  let wait = 250;
  while (stream === own) {
    try {
      const wanted = query();
      own.charts = wanted.get("charts");
      const reply = await fetch("/dashboard/events?" + wanted, { headers: headers(), signal: own.signal });
      if (reply.status === 401 || reply.status === 403) {
        if (reply.status === 401) signIn();
        else status("lost", "refused: open this page on the machine of the daemon");
        stream = null;
        return;
      }
      if (!reply.ok) throw new Error("status " + reply.status);
      wait = 250;
      await read(reply.body.pipeThrough(new TextDecoderStream()).getReader(), own);
    } catch (error) {
      if (own.signal.aborted) return;
      status("lost", "no connection");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 5000);
    }
  }
}

async function read(reader, own) {
  let buffered = "";
  for (;;) {
    // An event arrives every second. A network that is gone ends no connection, so silence has to be noticed.
    const silence = setTimeout(() => reader.cancel(), SILENCE_MAX);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (stream !== own) return;
    if (done) throw new Error("the connection ended");
    buffered += value;
    let end = buffered.indexOf("\n\n");
    while (end >= 0) {
      const event = buffered.slice(0, end);
      buffered = buffered.slice(end + 2);
      if (event.startsWith("data: ")) receive(JSON.parse(event.slice(6)));
      end = buffered.indexOf("\n\n");
    }
  }
}

function receive(document) {
  state = document;
  status("live", "live");
  show();
  keep();
  // Charts are drawn for the width that they have, which changes with the window.
  if (stream && stream.charts !== query().get("charts")) connect();
}

// The last state is shown at once after the page is loaded again.
function keep() {
  try {
    const config = state.config && { ...state.config, text: configText };
    sessionStorage.setItem(storage.state, JSON.stringify({ ...state, config }));
  } catch {
    sessionStorage.removeItem(storage.state);
  }
}

function restore() {
  const kept = sessionStorage.getItem(storage.state);
  if (!kept) return;
  try {
    state = JSON.parse(kept);
    show();
    status("wait", "connecting");
  } catch {
    state = null;
    sessionStorage.removeItem(storage.state);
  }
}

// One key

async function showKey(name) {
  openKey = name;
  text("key-error", "");
  const dialog = byId("key-dialog");
  try {
    const width = Math.min(680, document.documentElement.clientWidth - 80);
    const key = await send("/dashboard/key", { ...name, width, zone: zone() });
    // Another key was opened in the meantime: its reset must not be confirmed under this name.
    if (openKey !== name) return;
    fillKey(key);
    if (!dialog.open) dialog.showModal();
  } catch (error) {
    if (openKey !== name) return;
    text("key-error", error.message);
    if (!dialog.open && byId("sign-in").hidden) {
      text("key-title", "Key");
      text("key-where", "");
      text("key-state", "");
      text("key-note", "");
      byId("key-quotas").replaceChildren();
      byId("key-reset").hidden = true;
      dialog.showModal();
    }
  }
}

// When units become available again: some of them, and with the exact log, all of them.
function returns(key, quota) {
  if (quota.used === 0) return [];
  const last = key.events?.at(-1);
  const all = last && (last[0] - key.now) / 1000 + quota.window;
  return [["More returns in", seconds(quota.reset_after)], ...(all > 0 ? [["All returns in", seconds(all)]] : [])];
}

function fillKey(key) {
  openKey = { ...openKey, shown: key.key, policy_name: key.policy };
  byId("key-reset").hidden = false;
  text("key-title", key.key);
  text("key-where", `Policy ${key.policy}${key.tier ? ", tier " + key.tier : ""}${key.is_digest ? " · the key is a secret, so its digest is shown" : ""}`);
  const result = byId("key-state");
  result.className = key.is_allowed ? "good" : "bad";
  let words = `${count(key.remaining)} left: the next request is allowed.`;
  if (key.is_blocked) words = "Blocked.";
  else if (!key.is_allowed) words = key.retry_after === null ? "Denied." : `Used up: a request fits in ${seconds(key.retry_after)}.`;
  if (!key.is_enforced && !key.is_allowed) words += " The policy is not enforced for this key, so requests pass.";
  result.textContent = words;
  const quotas = key.quotas.map((quota) => {
    const figure = make("div", { class: "chart" });
    const facts = make("dl", { class: "facts" });
    const values = [["Limit", quota.text], ["Used", count(quota.used)], ["Left", count(quota.remaining)], ...returns(key, quota)];
    for (const [label, value] of values) facts.append(make("div", {}, make("dt", {}, label), make("dd", {}, value)));
    if (quota.chart) chart(figure, quota.chart);
    else figure.hidden = true;
    return make("div", { class: "store" }, facts, figure);
  });
  byId("key-quotas").replaceChildren(...quotas);
  text("key-note", key.events === null ? "This algorithm does not store the times of requests, so there is no timeline." : key.left_out > 0 ? `${key.left_out} older requests are not listed.` : "");
}

async function resetKey() {
  byId("confirm-dialog").close();
  const { id, policy, key, tier } = openKey;
  const name = id ? { id } : { policy, key, tier };
  try {
    const done = await send("/dashboard/reset", name);
    await showKey(name);
    text("key-note", done.reset ? "The key was reset." : "There was nothing to reset.");
  } catch (error) {
    text("key-error", error.message);
  }
}

// Start

function listen() {
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    token = byId("token").value.trim();
    byId("token").value = "";
    text("sign-in-error", "");
    sessionStorage.setItem(storage.token, token);
    connect();
  });
  byId("all-policies").addEventListener("click", () => choosePolicy(""));
  for (const name of ["hottest", "closest"]) {
    byId("tab-" + name).addEventListener("click", () => {
      shownList = name;
      for (const other of ["hottest", "closest"]) byId("tab-" + other).setAttribute("aria-pressed", String(other === name));
      if (state) showKeys();
    });
  }
  byId("search-key").addEventListener("input", () => state && showKeys());
  byId("search-policy").addEventListener("change", () => state && showKeys());
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("search-key").value;
    const policy = byId("search-policy").value || (uniquePolicies().length === 1 ? uniquePolicies()[0].name : "");
    if (!policy) byId("search-policy").focus();
    else if (key) showKey({ policy, key });
  });
  byId("key-close").addEventListener("click", () => byId("key-dialog").close());
  byId("key-refresh").addEventListener("click", () => showKey(openKey.id ? { id: openKey.id } : { policy: openKey.policy, key: openKey.key }));
  byId("key-reset").addEventListener("click", () => {
    text("confirm-key", openKey.shown);
    text("confirm-policy", openKey.policy_name);
    byId("confirm-dialog").showModal();
    byId("confirm-no").focus();
  });
  byId("confirm-no").addEventListener("click", () => byId("confirm-dialog").close());
  byId("confirm-yes").addEventListener("click", resetKey);
}

listen();
restore();
connect();
