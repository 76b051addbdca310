/** A JSON Schema, and as `T` the type of the values that it describes. */
export interface JsonShape<T> {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly (string | number | boolean)[];
  readonly format?: string;
  readonly description?: string;
  readonly items?: JsonShape<unknown>;
  readonly anyOf?: readonly JsonShape<unknown>[];
  readonly properties?: Properties;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonShape<unknown>;
  /** Bounds of texts, numbers and lists, for what requests send. */
  readonly minLength?: number;
  readonly maxLength?: number;
  /** Requires a character that is not blank. */
  readonly pattern?: '\\S';
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  /** Exists only as a type. */
  readonly [described]?: T;
}
declare const described: unique symbol;

/** The type of the values that a shape describes. */
export type ValueOf<S> = S extends JsonShape<infer T> ? T : never;

type Properties = Readonly<Record<string, JsonShape<unknown>>>;
type Values<P> = { readonly [K in keyof P]: ValueOf<P[K]> };
type Merged<T> = { readonly [K in keyof T]: T[K] };

export const text: JsonShape<string> = { type: 'string' };
export const whole: JsonShape<number> = { type: 'integer' };
export const number: JsonShape<number> = { type: 'number' };
export const flag: JsonShape<boolean> = { type: 'boolean' };
/** Absent instead of false. */
export const onlyTrue: JsonShape<true> = { type: 'boolean', enum: [true] };
/** A time of RFC 3339. */
export const time: JsonShape<string> = { type: 'string', format: 'date-time' };
export const anything: JsonShape<unknown> = {};
export const anyObject: JsonShape<object> = { type: 'object' };

export const listOf = <T>(items: JsonShape<T>): JsonShape<readonly T[]> => ({ type: 'array', items });
/** An object whose property names are not fixed. */
export const mapOf = <T>(values: JsonShape<T>): JsonShape<Readonly<Record<string, T>>> => ({
  type: 'object',
  additionalProperties: values,
});
export const oneOf = <const W extends readonly string[]>(...words: W): JsonShape<W[number]> => ({
  type: 'string',
  enum: words,
});
export const anyOf = <S extends readonly JsonShape<unknown>[]>(...shapes: S): JsonShape<ValueOf<S[number]>> => ({
  anyOf: shapes,
});
export const orNull = <T>(shape: JsonShape<T>): JsonShape<T | null> => ({ anyOf: [shape, { type: 'null' }] });

/** An object with required and optional properties. */
export const fields = <A extends Properties, M extends Properties = Record<never, never>>(
  always: A,
  maybe?: M,
): JsonShape<Merged<Values<A> & Partial<Values<M>>>> => ({
  type: 'object',
  properties: { ...always, ...maybe },
  required: Object.keys(always),
});

/** The same, with further properties of any kind. */
export const openFields = <A extends Properties, M extends Properties = Record<never, never>>(
  always: A,
  maybe?: M,
): JsonShape<Merged<Values<A> & Partial<Values<M>>> & { readonly [more: string]: unknown }> => ({
  ...fields(always, maybe),
  additionalProperties: true,
});
