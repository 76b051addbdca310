import type { JsonObject } from '../../../base/json.ts';
import type { format, Shape } from './format.ts';
import type { MayBeOverlaid } from './overlaid.ts';
import type { Place } from './problem.ts';

/** A block of a rule file, checked against the format: its values, and their places. */
export interface Block<S extends Shape> extends MayBeOverlaid {
  readonly values: { readonly [K in keyof (typeof format)[S]]?: ValueOf<(typeof format)[S][K]> };
  /** Keys with invalid values: reported already, and absent from `values`. */
  readonly invalid: ReadonlySet<PropertyKey>;
  /** Keys without a value; absent if unknown. */
  readonly empty?: ReadonlySet<PropertyKey>;
  /** The place of the block or of one of its keys. */
  place(key?: keyof (typeof format)[S]): Place;
}

/** A block that is not in a file as such: all of its values have one place. */
export const createBlock = <S extends Shape>(values: Block<S>['values'], place: Place): Block<S> => ({
  values,
  invalid: NOTHING,
  place: () => place,
});

const NOTHING: ReadonlySet<PropertyKey> = new Set();

type ValueOf<F> = F extends { type: 'list'; of: infer S extends Shape }
  ? readonly Block<S>[]
  : F extends { type: 'block'; of: infer S extends Shape }
    ? Block<S>
    : F extends { type: 'count' }
      ? number
      : F extends { type: 'flag' }
        ? boolean
        : F extends { type: 'struct' }
          ? JsonObject
          : F extends { type: 'texts' }
            ? readonly string[]
            : F extends { type: 'keys'; orBlock: infer S extends Shape }
              ? Alternatives | Block<S>
              : F extends { type: 'keys' }
                ? Alternatives
                : F extends { orBlock: infer S extends Shape }
                  ? string | Block<S>
                  : string;

/** Lists of keys, of which one is required. */
export type Alternatives = readonly (readonly string[])[];
