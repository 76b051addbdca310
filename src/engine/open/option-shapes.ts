import {
  action,
  any,
  count,
  findWrongOption,
  flag,
  having,
  type OptionKind,
  type OptionShape,
  object,
  oneOf,
  required,
  text,
} from '../../base/options.ts';
import { spends } from '../algorithms/limit.ts';
import { type CounterOptions, InvalidOptions } from './options.ts';

const tls = object({ caFile: text, certFile: text, keyFile: text, skipHostnameVerification: flag });

const redisOptions = object(
  { address: having('kind'), tls, sentinelCredentials: any, connectTimeoutMs: count },
  { needs: ['address'] },
);

const redis: OptionKind = {
  expected: `a string or ${redisOptions.expected}`,
  fits: (value) => typeof value === 'string' || redisOptions.fits(value),
  ...(redisOptions.shape && { shape: redisOptions.shape }),
};

const srv = object({ srv: required(text), refreshMs: required(count) });

const memcached: OptionKind = {
  expected: `a list of host:port or ${srv.expected}`,
  fits: (value) => (Array.isArray(value) ? value.length > 0 && value.every(text.fits) : srv.fits(value)),
  ...(srv.shape && { shape: srv.shape }),
};

/** The option `rules`. */
export const rules = object(
  { files: any, watch: flag, text: any, mergeDomains: flag, onLoad: action, tree: action },
  { needs: ['files', 'text', 'tree'] },
);

export const counterOptions: Readonly<Record<keyof CounterOptions, OptionKind>> = {
  store: object(
    { redis, perSecond: redis, memcached, tls, backend: having('run', 'health', 'close') },
    { needs: ['redis', 'memcached', 'backend'], or: ['memory'] },
  ),
  keys: object({
    kind: oneOf('own', 'reference'),
    prefix: text,
    hashTag: oneOf('none', 'domain'),
    jitterMaxSeconds: count,
  }),
  memory: object({ maxCounters: count, maxBytes: count }),
  refusalCacheBytes: count,
  keepRefusals: flag,
  maxLeases: count,
  storeTimeoutMs: count,
  startup: object({ initialMs: count, maxMs: count }),
  spend: oneOf(...spends),
  consistency: oneOf('strict', 'leased'),
  clock: action,
  monotonicMs: action,
  onStoreEvent: action,
  usage: flag,
  split: any,
};

/** @throws InvalidOptions  an option has an unknown name, or a value of another kind */
export function checkOptions(options: unknown, expected: OptionShape): void {
  const wrong = findWrongOption(options, expected);
  if (wrong) throw new InvalidOptions(wrong.option, wrong.problem);
}
