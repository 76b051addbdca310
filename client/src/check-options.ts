import {
  any,
  count,
  findWrongOption,
  flag,
  having,
  type OptionKind,
  type OptionShape,
  object,
  text,
} from '../../src/base/options.ts';
import type { CallOptions, ClientOptions } from './options.ts';

const shape: Readonly<Record<keyof ClientOptions, OptionKind>> = {
  target: any,
  engine: having('decide', 'health', 'close'),
  timeoutMs: any,
  onError: any,
  local: object({ requests: any, windowMs: any }),
  tls: object({ ca: any, cert: any, key: any, serverName: text }, { or: [true] }),
  grpc: having('Client', 'credentials', 'Metadata'),
  batch: flag,
  breaker: object({ failures: count, minOpenMs: count, maxOpenMs: count }, { or: [false] }),
  refusals: object({ max: count, maxMs: count }, { or: [false] }),
  opentelemetry: having('trace', 'metrics', 'context', 'propagation'),
};

const callShape: Readonly<Record<keyof CallOptions, OptionKind>> = {
  hits: any,
  timeoutMs: any,
  onError: any,
  signal: any,
};

/** Throws a TypeError if an option has an unknown name, or a value of another kind. */
export function checkShape(options: unknown, expected: OptionShape): void {
  const wrong = findWrongOption(options, expected);
  if (wrong) throw new TypeError(`${wrong.option}: ${wrong.problem}`);
}

export const checkClientOptions = (options: ClientOptions): void => checkShape(options, shape);

/** The same for a single call, without a cost if all names are known. */
export function checkCallOptions(options: CallOptions): void {
  for (const name in options) if (!Object.hasOwn(callShape, name)) return checkShape(options, callShape);
}
