import type { Spend } from '../engine/algorithms/limit.ts';
import type { Block } from '../engine/rules/read/block.ts';
import type { OverlayFile } from '../engine/rules/read/overlaid.ts';
import type { Problem, Problems } from '../engine/rules/read/problem.ts';
import { lint } from './lint/lint.ts';
import { layOver } from './overlay/overlay.ts';

type Files = readonly Block<'file'>[];

/** Functions that lay overlay files over rule files, before these are compiled. What is wrong goes to `problems`. */
export const overlays: Readonly<
  Record<string, (files: Files, over: readonly OverlayFile[], problems: Problems) => Files>
> = {
  overlay: layOver,
};

/** Functions that find more in valid rule files, which are checked in the process that reads them. */
export const ruleChecks: Readonly<Record<string, (files: Files, spend: Spend) => readonly Problem[]>> = {
  lint,
};
