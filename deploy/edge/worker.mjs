// A CDN worker that calls Slidegate's forward auth (`/auth`) before it forwards a request, and caches denials for as
// long as they hold, so that a flood is answered at the edge. Written for the module syntax of Cloudflare Workers.
//
// Variables of the worker:
//   SLIDEGATE    https://limits.example.com, the daemon's HTTP listener
//   TOKEN        optional: a token with the scope `check` (docs/daemon.md)
//   KEY_HEADERS  the header fields that the rules use as keys or for tiers, for example "x-api-key,x-plan"
//   FAIL_OPEN    "true" forwards requests if Slidegate cannot be reached; otherwise they get a 503
//
// `trusted_proxies` of the daemon has to contain the addresses from which the CDN calls it.
//
// NOT RUN on a CDN. The tests of the daemon run worker.test.mjs, which calls a real daemon from Node.

const ENTRIES_MAX = 10_000;
const DEADLINE_MS = 250;

/** Denials that still hold, by request. Each instance of a worker has its own. */
export class DenialCache {
  constructor(now, entriesMax = ENTRIES_MAX) {
    this.now = now;
    this.entriesMax = entriesMax;
    this.entries = new Map();
  }

  /** Returns the denial with the seconds that are left, or undefined. */
  get(key) {
    const denial = this.entries.get(key);
    if (denial === undefined) return undefined;
    const left = denial.until - this.now();
    if (left <= 0) {
      this.entries.delete(key);
      return undefined;
    }
    return { ...denial, seconds: Math.ceil(left / 1000) };
  }

  set(key, seconds, headers, body) {
    // A Map iterates in the order of insertion, so this removes the oldest entry.
    if (this.entries.size >= this.entriesMax) this.entries.delete(this.entries.keys().next().value);
    this.entries.set(key, { until: this.now() + 1000 * seconds, headers, body });
  }
}

/** Returns a function from a request to a response. `call` is `fetch`, for the daemon and for the origin. */
export function limiter(settings, call, now = Date.now) {
  const denials = new DenialCache(now);
  const keyHeaders = (settings.KEY_HEADERS || '').split(',').map((name) => name.trim()).filter(Boolean);

  return async function handle(request) {
    const url = new URL(request.url);
    const address = request.headers.get('cf-connecting-ip');
    // Everything that a rule may look at: a denial is only reused for a request that would get the same one.
    const parts = [address, request.method, url.host, url.pathname, ...keyHeaders.map((name) => request.headers.get(name))];
    const key = JSON.stringify(parts);
    const cached = denials.get(key);
    if (cached !== undefined) return denied(cached.headers, cached.body, cached.seconds);

    const headers = new Headers(keyHeaders.flatMap((name) => {
      const value = request.headers.get(name);
      return value === null ? [] : [[name, value]];
    }));
    headers.set('X-Forwarded-For', address);
    headers.set('X-Forwarded-Method', request.method);
    headers.set('X-Forwarded-Host', url.host);
    headers.set('X-Forwarded-Uri', url.pathname + url.search);
    if (settings.TOKEN) headers.set('X-Slidegate-Token', settings.TOKEN);
    let reply;
    try {
      const signal = AbortSignal.timeout(settings.DEADLINE_MS || DEADLINE_MS);
      reply = await call(`${settings.SLIDEGATE}/auth?headers=forwarded`, { headers, signal });
    } catch {
      return settings.FAIL_OPEN === 'true' ? call(request) : new Response('no decision\n', { status: 503 });
    }
    if (reply.status === 429) {
      const seconds = Number(reply.headers.get('retry-after'));
      const body = await reply.text();
      if (seconds > 0) denials.set(key, seconds, reply.headers, body);
      return denied(reply.headers, body, seconds);
    }
    if (reply.status === 204) return call(request);
    // Misconfigured, for example an address that is not in `trusted_proxies`.
    return new Response(await reply.text(), { status: 502 });
  };
}

function denied(headers, body, seconds) {
  const response = new Response(body, { status: 429, headers });
  if (seconds > 0) response.headers.set('Retry-After', String(seconds));
  return response;
}

let handle;

export default {
  fetch(request, settings) {
    handle ??= limiter(settings, fetch);
    return handle(request);
  },
};
