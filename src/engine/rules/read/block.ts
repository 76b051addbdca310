import type { JsonObject } from '../../../base/json.ts';
import { type Field, format, type Shape } from './format.ts';
import type { MayBeOverlaid } from './overlaid.ts';
import { type Place, pathOfKey } from './problem.ts';

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

type Values = Readonly<Record<string, unknown>>;

const shapes: Readonly<Record<string, Readonly<Record<string, Field>>>> = format;

/** Builds a block, and those in it, of values that have the types of the format. */
export function reviveBlock<S extends Shape>(shape: S, written: Values, place: Place): Block<S> {
  const values = mapBlocks(shape, written, (inner, block, key) =>
    reviveBlock(inner, block as Values, { ...place, path: pathOfKey(place.path, key) }),
  );
  return {
    values: values as Block<S>['values'], // as the format says
    invalid: NOTHING,
    place: (key) => (key === undefined ? place : { ...place, path: pathOfKey(place.path, String(key)) }),
  };
}

/**
 * A copy of a block's values in which each block, single or in a list, is mapped.
 *
 * @param map  receives the key as well, of a block in a list with its index: `descriptors[0]`
 */
export function mapBlocks(
  shape: Shape,
  values: Values,
  map: (shape: Shape, block: unknown, key: string) => unknown,
): Values {
  const entries = Object.entries(values).map(([key, value]): [string, unknown] => {
    const inner = value === undefined ? undefined : innerShape(shapes[shape]?.[key], value);
    if (inner === undefined) return [key, value];
    return [
      key,
      Array.isArray(value) ? value.map((block, at) => map(inner, block, `${key}[${at}]`)) : map(inner, value, key),
    ];
  });
  return Object.fromEntries(entries);
}

/** The shape of the blocks in a value; undefined if it has none. */
function innerShape(field: Field | undefined, value: unknown): Shape | undefined {
  const isBlock = field?.type === 'list' || field?.type === 'block';
  const of = isBlock ? field.of : field?.type === 'text' && typeof value === 'object' ? field.orBlock : undefined;
  return of as Shape | undefined; // the format only names its own blocks
}

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
