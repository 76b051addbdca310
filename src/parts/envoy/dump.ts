/** An object of a dump of Envoy's admin interface, whose fields are unchecked. */
export type UncheckedObject = Readonly<Record<string, unknown>>;

/** A value as an object; empty if it is not one. */
export const asObject = (value: unknown): UncheckedObject =>
  typeof value === 'object' && value !== null ? (value as UncheckedObject) : {};

/** A value as a list of objects; empty if it is not a list. */
export const asObjects = (value: unknown): readonly UncheckedObject[] =>
  Array.isArray(value) ? value.map(asObject) : [];

/** All objects nested in a value, at any depth. */
export function* objectsIn(value: unknown): Iterable<UncheckedObject> {
  const waiting = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (Array.isArray(next)) for (const item of next) waiting.push(item);
    else if (typeof next === 'object' && next !== null) {
      yield next as UncheckedObject; // its fields are unchecked
      for (const item of Object.values(next)) waiting.push(item);
    }
  }
}

/** Whether an object is an extension's configuration of this type: its name without the package before the version. */
export const isTyped = (object: UncheckedObject, type: string): boolean =>
  String(object['@type'] ?? '').endsWith(`.${type}`);

/** A result of the doctor about a live Envoy. */
export interface Finding {
  /** `check`: depends on what a configuration does not show. */
  readonly verdict: 'right' | 'wrong' | 'check';
  readonly text: string;
}

export const right = (text: string): Finding => ({ verdict: 'right', text });
export const wrong = (text: string): Finding => ({ verdict: 'wrong', text });
export const check = (text: string): Finding => ({ verdict: 'check', text });

/** Maximum number of items that a finding names. */
const MAX_NAMED = 5;

export function listedTexts(texts: readonly string[], separator = ', '): string {
  const more = texts.length - MAX_NAMED;
  return texts.slice(0, MAX_NAMED).join(separator) + (more > 0 ? ` and ${more} more` : '');
}
