import { fixedWindow } from './fixed-window.ts';
import type { Algorithm, Limit } from './limit.ts';

/** Every algorithm by the name that rules give it. A new one is a row here and a pair of files beside this one. */
export const algorithms: { readonly [N in Limit['algorithm']]: Algorithm<Extract<Limit, { algorithm: N }>> } = {
  fixed_window: fixedWindow,
};

/** The algorithm a limit names. 10 a minute by `fixed_window`: the row `fixedWindow`. */
export const algorithmFor = (limit: Limit): Algorithm => algorithms[limit.algorithm];
