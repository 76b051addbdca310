import { randomInt } from 'node:crypto';
import { LiveAdvice } from '../advise/live-advice.ts';
import { hashed } from '../hashed.ts';
import type { Settings } from '../settings.ts';
import type { Core } from './core.ts';
import type { Responders } from './responders.ts';
import { every } from './store.ts';

/** Follows what keys do, from now on. */
export const openAdvice = (
  { advice, admin }: Pick<Settings, 'advice' | 'admin'>,
  { rules }: Pick<Core, 'rules'>,
  { ask }: Pick<Responders, 'ask'>,
): LiveAdvice =>
  new LiveAdvice({
    ...{ maxBytes: advice.maxBytes, ask, every },
    rules: rules.book.rules,
    seed: randomInt(2 ** 31),
    hash: admin.hashKeys ? hashed : undefined,
  });
