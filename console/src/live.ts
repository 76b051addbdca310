import { batch, computed, effect, signal } from '@preact/signals';
import type { Answers } from '../../src/operate/answers/all.ts';
import { serviceFields } from '../../src/operate/status/service-series.ts';
import type { Columns } from '../../src/parts/console/answers.ts';
import type { LiveSnapshot } from '../../src/parts/console/feed.ts';
import { allRuleFields, ruleFields } from '../../src/parts/console/rule-fields.ts';
import { get } from './api.ts';
import { obstacle, session } from './session.ts';
import type { StreamMessage } from './stream-worker.ts';

export type { LiveSnapshot };

/** Seconds of history that pages keep. */
const KEPT_SECONDS = 60;

/** A stream without a snapshot for this long is stale. */
const STALE_MS = 3_500;

export const snapshot = signal<LiveSnapshot | undefined>(undefined);

/** The last minute of the service: a list per field, the oldest second first. */
export const history = signal<Columns>({});

/** The last minute of each rule that was hit. */
export const ruleHistory = signal<ReadonlyMap<string, Columns>>(new Map());

export const rules = signal<Answers['GET /api/v1/rules'] | undefined>(undefined);

/** The folder that has all rule files, with a slash at its end. */
const ruleFolder = computed(() => {
  const files = (rules.value?.rules ?? []).flatMap(({ file }) => file ?? []);
  const [first = '', ...others] = new Set(files);
  let end = first.lastIndexOf('/') + 1;
  while (end > 0 && !others.every((file) => file.startsWith(first.slice(0, end))))
    end = first.lastIndexOf('/', end - 2) + 1;
  return first.slice(0, end);
});

/** The path of a rule file below the folder of all of them. */
export const ruleFile = (file: string): string =>
  file.startsWith(ruleFolder.value) ? file.slice(ruleFolder.value.length) : file;

/** The browser's clock, updated each second. */
export const nowMs = signal(Date.now());

const receivedAtMs = signal(0);
const isOpen = signal(false);

/** The state of the stream. */
export const connection = computed<'connecting' | 'live' | 'stale' | 'disconnected'>(() => {
  if (!snapshot.value) return receivedAtMs.value === 0 && !hasFailed.value ? 'connecting' : 'disconnected';
  if (nowMs.value - receivedAtMs.value < STALE_MS) return 'live';
  return isOpen.value ? 'stale' : 'disconnected';
});
const hasFailed = signal(false);

export const silentMs = computed(() => Math.max(nowMs.value - receivedAtMs.value, 0));

/** Starts the event stream and the polls of the service. */
export function startLive(): void {
  setInterval(() => {
    nowMs.value = Date.now();
  }, 1_000);
  effect(() => {
    const isStoreAway = snapshot.value?.store.isUp === false;
    const away = connection.value === 'disconnected' ? 'service' : isStoreAway ? 'store' : undefined;
    obstacle.value = away && `The ${away} does not answer. Changes are possible again once it does.`;
  });
  let close = openStream(onMessage);
  let kind = streamKind();
  session.subscribe(() => {
    if (streamKind() === kind) return;
    kind = streamKind();
    close();
    close = openStream(onMessage);
  });
}

/** Clients of another role, or for other domains, see other values. */
function streamKind(): string {
  const { role = 'open', domains = [] } = session.peek() ?? {};
  return [role, ...domains].join(' ');
}

/** Pages of one browser share a stream through a SharedWorker; if that is unsupported, each has its own. */
function openStream(on: (message: StreamMessage) => void): () => void {
  const url = new URL('../api/v1/events', location.href).href;
  if (typeof SharedWorker === 'function') {
    const worker = new SharedWorker('stream-worker.js', { name: `weir ${streamKind()}` });
    worker.port.onmessage = ({ data }: MessageEvent<StreamMessage>) => on(data);
    worker.port.postMessage({ url });
    const goodbye = (): void => worker.port.postMessage('bye');
    addEventListener('pagehide', goodbye);
    addEventListener('pageshow', (event) => {
      if (event.persisted) location.reload();
    });
    return () => {
      goodbye();
      removeEventListener('pagehide', goodbye);
    };
  }
  const source = new EventSource(url);
  source.onopen = () => on({ kind: 'open' });
  source.onerror = () => on({ kind: 'lost' });
  source.onmessage = ({ data }) => on({ kind: 'snapshot', text: data });
  return () => source.close();
}

function onMessage(message: StreamMessage): void {
  if (message.kind === 'open') {
    isOpen.value = true;
    return;
  }
  if (message.kind === 'lost') {
    batch(() => {
      isOpen.value = false;
      hasFailed.value = true;
    });
    return;
  }
  const next = JSON.parse(message.text) as LiveSnapshot;
  const before = snapshot.peek();
  if (before?.atMs === next.atMs) return;
  batch(() => {
    isOpen.value = true;
    receivedAtMs.value = Date.now();
    nowMs.value = Date.now();
    snapshot.value = next;
    if (!before || before.startedAtMs !== next.startedAtMs || next.atMs - before.atMs > 2_500) void loadHistory();
    else append(next);
  });
  const isChanged = rules.peek()?.hash !== next.rules.hash || before?.rules.pending !== next.rules.pending;
  if (isChanged || next.atMs >= nextChangeMs) void loadRules();
}

/** Fields that keep their values while there are no requests. */
const keptFields: ReadonlySet<string> = new Set(['share', 'limit']);

function append(next: LiveSnapshot): void {
  const add = (list: readonly number[] | undefined, value: number): readonly number[] => [
    ...(list ?? []).slice(-(KEPT_SECONDS - 1)),
    value,
  ];
  history.value = Object.fromEntries(
    serviceFields.map((field) => [field, add(history.peek()[field], next.rates[field])]),
  );
  const active = new Map(next.active.map(([rule, ...rates]) => [rule, rates]));
  const after = new Map<string, Columns>();
  for (const rule of new Set([...ruleHistory.peek().keys(), ...active.keys()])) {
    const known = ruleHistory.peek().get(rule);
    const rates = active.get(rule);
    const isQuiet =
      !rates &&
      (['passed', 'refused', 'held'] as const).every((field) => known?.[field]?.every((value) => value === 0) ?? true);
    if (known && isQuiet) {
      after.set(rule, known); // no need to draw it again
      continue;
    }
    const rate = (field: string, at: number): number =>
      rates?.[at] ?? (keptFields.has(field) ? (known?.[field]?.at(-1) ?? 0) : 0);
    const fields = known?.held || (rates?.length ?? 0) > ruleFields.length ? allRuleFields : ruleFields;
    after.set(rule, Object.fromEntries(fields.map((field, at) => [field, add(known?.[field], rate(field, at))])));
  }
  ruleHistory.value = after;
}

async function loadHistory(): Promise<void> {
  try {
    const [service, byRule] = await Promise.all([get('series', { range: '60s' }), get('series/rules')]);
    batch(() => {
      history.value = service.series;
      ruleHistory.value = new Map(Object.entries(byRule.rules));
    });
  } catch {
    // the next snapshot after a gap loads it again
  }
}

let isLoadingRules = false;
/** The next time at which other limits of a schedule apply, by the service's clock. */
let nextChangeMs = Number.POSITIVE_INFINITY;

async function loadRules(): Promise<void> {
  if (isLoadingRules) return;
  isLoadingRules = true;
  try {
    const listed = await get('rules');
    nextChangeMs = listed.rules.reduce(
      (next, { schedule }) => Math.min(next, schedule?.changes_at_ms ?? next),
      Number.POSITIVE_INFINITY,
    );
    rules.value = listed;
  } catch {
    // the next snapshot loads them again
  } finally {
    isLoadingRules = false;
  }
}
