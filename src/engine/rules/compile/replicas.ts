import { MAX_LIMIT } from '../../algorithms/limit.ts';
import type { Block } from '../read/block.ts';
import { dividing } from '../read/format.ts';
import { mapLimits } from '../read/node-source.ts';
import { type Problems, shown } from '../read/problem.ts';

/** Where the number of replicas comes from. */
export interface ReplicaPlace {
  readonly kind: 'dns' | 'file';
  /** A host name, or a path. */
  readonly name: string;
}

/** The number of replicas now; undefined if it is not known (yet). */
export type CountReplicas = (place: ReplicaPlace) => number | undefined;

/** Replicas count as at most this many, unless `max` says otherwise. */
const DEFAULT_MAX = 1_000;
const MAX_REPLICAS = 100_000;

/** Writes `requests_per_unit` into all limits with `per_replica`: times the number of replicas, or `min` without one. */
export const multiplyByReplicas = (
  files: readonly Block<'file'>[],
  count: CountReplicas = () => undefined,
  problems: Problems,
): readonly Block<'file'>[] => files.map((file) => mapLimits(file, (limit) => multiplyLimit(limit, count, problems)));

function multiplyLimit(limit: Block<'rate_limit'>, count: CountReplicas, problems: Problems): Block<'rate_limit'> {
  const { values, invalid, place } = limit;
  const { per_replica: each, replicas } = values;
  if (each === undefined && !replicas) return limit;
  const before = problems.all.length;
  const report = (key: keyof typeof values, message: string): undefined => problems.error(place(key), message);
  for (const other of ['requests_per_unit', 'budget', 'burst', 'soft', ...dividing] as const)
    if (values[other] !== undefined) report(other, `${other} cannot be used with per_replica: remove one of them`);
  if (values.on_change === 'reset')
    report(
      'on_change',
      'on_change: reset cannot be used with per_replica: replicas that come and go would reset counters',
    );
  if (each === undefined && !invalid.has('per_replica')) report('replicas', 'replicas goes with per_replica, got none');
  if (!replicas && !invalid.has('replicas'))
    report('per_replica', 'per_replica requires replicas: { dns: host } or { file: path }, got none');
  const read = replicas && readReplicas(replicas, problems);
  if (each === undefined || !read) return limit;
  const { from, min, max } = read;
  if (each < 1 || each * max > MAX_LIMIT)
    report(
      'per_replica',
      `per_replica must be 1 to ${Math.floor(MAX_LIMIT / max)} for up to ${max} replicas, got ${each}`,
    );
  if (problems.all.length > before) return limit;
  const replicasNow = Math.min(Math.max(count(from) ?? min, min), max);
  return { ...limit, values: { ...values, requests_per_unit: each * replicasNow } };
}

function readReplicas({ values, invalid, place }: Block<'replicas'>, problems: Problems) {
  const { dns, file, min = 1, max = Math.max(DEFAULT_MAX, min) } = values;
  const before = problems.all.length;
  const name = dns ?? file ?? '';
  const isNamed = (dns === undefined) !== (file === undefined) && name !== '';
  if (!isNamed && !invalid.has('dns') && !invalid.has('file'))
    problems.error(place(), 'replicas must have either dns, a host name, or file, a path');
  if (isNamed && dns !== undefined && !/^[\w.-]{1,253}$/.test(dns))
    problems.error(place('dns'), `dns must be a host name such as checkout.shop.svc, got '${shown(dns)}'`);
  if (min < 1 || min > MAX_REPLICAS) problems.error(place('min'), `min must be 1 to ${MAX_REPLICAS}, got ${min}`);
  else if (max < min || max > MAX_REPLICAS)
    problems.error(place('max'), `max must be ${min} (min) to ${MAX_REPLICAS}, got ${max}`);
  if (invalid.size > 0 || problems.all.length > before) return undefined;
  const from: ReplicaPlace = { kind: dns === undefined ? 'file' : 'dns', name };
  return { from, min, max };
}
