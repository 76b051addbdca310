export type UncheckedObject = Readonly<Record<string, unknown>>;

/** A value as an object; empty if it is none. */
export const objectOf = (value: unknown): UncheckedObject =>
  typeof value === 'object' && value !== null ? (value as UncheckedObject) : {};

/** A value as a list of objects; empty if it is no list. */
export const listOf = (value: unknown): readonly UncheckedObject[] => (Array.isArray(value) ? value.map(objectOf) : []);
