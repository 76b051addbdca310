import type { Spend } from '../engine/algorithms/limit.ts';
import type { Block } from '../engine/rules/read/block.ts';
import type { Problem } from '../engine/rules/read/problem.ts';
import { lint } from './lint/lint.ts';

type Check = (files: readonly Block<'file'>[], spend: Spend) => readonly Problem[];

/** Functions that find more in valid rule files, which are checked in the process that reads them. */
export const ruleChecks: Readonly<Record<string, Check>> = {
  lint,
};
