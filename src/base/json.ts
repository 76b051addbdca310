/** Any JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** Merges objects: their own objects recursively; of other values, the first is kept. */
export function mergeObjects(all: readonly JsonObject[]): JsonObject {
  return all.reduce(mergeTwo, {});
}

function mergeTwo(one: JsonObject, other: JsonObject): JsonObject {
  const merged = new Map(Object.entries(one));
  for (const [key, value] of Object.entries(other)) {
    const known = merged.get(key);
    if (known === undefined) merged.set(key, value);
    else if (isObject(known) && isObject(value)) merged.set(key, mergeTwo(known, value));
  }
  return Object.fromEntries(merged); // a new object: theirs are immutable
}

/** The object of a text, or undefined if it has none. */
export function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
