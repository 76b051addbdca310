import { readdirSync, readFileSync } from 'node:fs';
import {
  constants,
  type IntervalHistogram,
  monitorEventLoopDelay,
  type PerformanceEntry,
  PerformanceObserver,
} from 'node:perf_hooks';
import process, { getActiveResourcesInfo, memoryUsage, version } from 'node:process';
import { getHeapSpaceStatistics, type HeapSpaceInfo } from 'node:v8';
import { Histogram } from './histogram.ts';
import { type MetricSample, type Reading, rowsFor } from './metric.ts';

/** Measures this process from its creation on. The names and texts of the metrics are those of prom-client. */
export class ProcessProbe {
  readonly delays = monitorEventLoopDelay({ resolution: 10 });
  readonly collections = new Histogram([0.001, 0.01, 0.1, 1, 2, 5]);
  /** How long the event loop took for a turn after the last scrape. */
  lagSeconds = 0;

  constructor() {
    this.delays.enable();
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries())
        this.collections.observe(entry.duration / 1_000, collectionKinds.get(gcKind(entry)) ?? 'unknown');
    }).observe({ entryTypes: ['gc'] });
  }

  /** To be called after each scrape: delays are those between two scrapes. */
  scraped(): void {
    this.delays.reset();
    const startMs = performance.now();
    setImmediate(() => {
      this.lagSeconds = (performance.now() - startMs) / 1_000;
    });
  }
}

/** Node's type of entries lacks it. */
const gcKind = (entry: PerformanceEntry): unknown =>
  (entry as { readonly detail?: { readonly kind?: unknown } }).detail?.kind;

const collectionKinds: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
]);

const { gauge, histogram } = rowsFor<ProcessProbe>();

/** A statistic of event loop delays, in nanoseconds; before the first delay it would be infinite or no number. */
const delay = (name: string, help: string, of: (delays: IntervalHistogram) => number) =>
  gauge(`nodejs_eventloop_lag_${name}`, help, ({ delays }) => (delays.count > 0 ? of(delays) / 1e9 : []));

const space = (kind: string, of: (info: HeapSpaceInfo) => number) =>
  gauge(
    `nodejs_heap_space_size_${kind}_bytes`,
    `Process heap space size ${kind} from Node.js in bytes.`,
    () => getHeapSpaceStatistics().map((info): MetricSample => [info.space_name.replace(/_space$/, ''), of(info)]),
    { labels: ['space'] },
  );

/** The metrics of what keeps the event loop alive: one by type, one of all. */
const active = (name: string, of: () => readonly string[], help: string) => [
  gauge(`nodejs_active_${name}`, help, () => of().map((type): MetricSample => [type, 1]), { labels: ['type'] }),
  gauge(`nodejs_active_${name}_total`, `Total number of active ${name}.`, () => of().length),
];

/** Not in the types of Node. */
const { _getActiveHandles: activeHandles, _getActiveRequests: activeRequests } = process as unknown as Readonly<
  Record<'_getActiveHandles' | '_getActiveRequests', () => readonly object[]>
>;

const typeNames = (list: readonly object[]): readonly string[] => list.map((one) => one.constructor.name);

const [major = '', minor = '', patch = ''] = version.slice(1).split('.');

/** What the operating system and Node report of the process. */
export const probeRows = [
  gauge('process_start_time_seconds', 'Start time of the process since unix epoch in seconds.', () =>
    Math.round(performance.timeOrigin / 1_000),
  ),
  gauge('process_virtual_memory_bytes', 'Virtual memory size in bytes.', () => kilobytes('VmSize')),
  gauge('process_heap_bytes', 'Process heap size in bytes.', () => kilobytes('VmData')),
  gauge(
    'process_open_fds',
    'Number of open file descriptors.',
    () => ofLinux(() => readdirSync('/proc/self/fd').length - 1), // without the one for reading the list
  ),
  gauge('process_max_fds', 'Maximum number of open file descriptors.', () =>
    ofLinux(() => numberIn('limits', /^Max open files +(\d+)/m)),
  ),
  gauge('nodejs_eventloop_lag_seconds', 'Lag of event loop in seconds.', ({ lagSeconds }) => lagSeconds),
  delay('min_seconds', 'The minimum recorded event loop delay.', ({ min }) => min),
  delay('max_seconds', 'The maximum recorded event loop delay.', ({ max }) => max),
  delay('mean_seconds', 'The mean of the recorded event loop delays.', ({ mean }) => mean),
  delay('stddev_seconds', 'The standard deviation of the recorded event loop delays.', ({ stddev }) => stddev),
  delay('p50_seconds', 'The 50th percentile of the recorded event loop delays.', (all) => all.percentile(50)),
  delay('p90_seconds', 'The 90th percentile of the recorded event loop delays.', (all) => all.percentile(90)),
  delay('p99_seconds', 'The 99th percentile of the recorded event loop delays.', (all) => all.percentile(99)),
  ...active(
    'resources',
    getActiveResourcesInfo,
    'Number of active resources that are currently keeping the event loop alive, grouped by async resource type.',
  ),
  ...active(
    'handles',
    () => typeNames(activeHandles()),
    'Number of active libuv handles grouped by handle type. Every handle type is C++ class name.',
  ),
  ...active(
    'requests',
    () => typeNames(activeRequests()),
    'Number of active libuv requests grouped by request type. Every request type is C++ class name.',
  ),
  gauge('nodejs_heap_size_total_bytes', 'Process heap size from Node.js in bytes.', () => memoryUsage().heapTotal),
  gauge('nodejs_heap_size_used_bytes', 'Process heap size used from Node.js in bytes.', () => memoryUsage().heapUsed),
  gauge('nodejs_external_memory_bytes', 'Node.js external memory size in bytes.', () => memoryUsage().external),
  space('total', (info) => info.space_size),
  space('used', (info) => info.space_used_size),
  space('available', (info) => info.space_available_size),
  gauge('nodejs_version_info', 'Node.js version info.', () => [[[version, major, minor, patch], 1]], {
    labels: ['version', 'major', 'minor', 'patch'],
  }),
  histogram(
    'nodejs_gc_duration_seconds',
    'Garbage collection duration by kind, one of major, minor, incremental or weakcb.',
    ({ collections }) => collections.samples(),
    { labels: ['kind'] },
  ),
];

const kilobytes = (field: string): Reading =>
  ofLinux(() => {
    const size = numberIn('status', new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm'));
    return size && size * 1_024;
  });

/** The first group of a pattern in a file about this process; undefined: it does not match. */
function numberIn(file: string, pattern: RegExp): number | undefined {
  const [, found] = pattern.exec(readFileSync(`/proc/self/${file}`, 'utf8')) ?? [];
  return found === undefined ? undefined : Number(found);
}

/** Undefined on other systems, which have no `/proc`. */
function ofLinux<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
