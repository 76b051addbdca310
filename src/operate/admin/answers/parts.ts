/** A JSON Schema in the OpenAPI document. It describes answers; nothing is checked against it. */
export type AnswerSchema = Readonly<Record<string, unknown>>;

/** Schemas by operation, such as `GET /api/v1/top`. */
export type AnswerSchemas = Readonly<Record<string, AnswerSchema>>;

type Fields = Readonly<Record<string, AnswerSchema>>;

export const text: AnswerSchema = { type: 'string' };
export const whole: AnswerSchema = { type: 'integer' };
export const number: AnswerSchema = { type: 'number' };
export const flag: AnswerSchema = { type: 'boolean' };
/** Absent instead of false. */
export const onlyTrue: AnswerSchema = { const: true };
export const time: AnswerSchema = { type: 'string', format: 'date-time' };
/** Any JSON value. */
export const whatever: AnswerSchema = {};

export const listOf = (items: AnswerSchema): AnswerSchema => ({ type: 'array', items });
export const oneOf = (...words: readonly string[]): AnswerSchema => ({ type: 'string', enum: words });
export const orNull = (schema: AnswerSchema): AnswerSchema => ({ anyOf: [schema, { type: 'null' }] });
/** An object with required and optional properties. */
export const fields = (always: Fields, maybe: Fields = {}): AnswerSchema => ({
  type: 'object',
  properties: { ...always, ...maybe },
  required: Object.keys(always),
});

/** The same, with further properties that depend on the rule. */
export const openFields = (always: Fields, maybe: Fields = {}): AnswerSchema => ({
  ...fields(always, maybe),
  additionalProperties: true,
});

export const entries: AnswerSchema = listOf(fields({ key: text, value: text }));

/** The file and line of a rule; absent: it is in no file. */
export const place: Fields = { file: text, line: whole };

/** An operator's override for the answer's descriptor. */
export const standingOverride = fields({ entries, effect: text, until: time, by: text, reason: text });

const ofCounter: Fields = { used: whole, remaining: whole, resetsInMs: number };
const ofSlots: Fields = { oldestMs: number, onHold: whole, open: whole };
export const counterState = fields(ofCounter, ofSlots);

/** A counter with its state. */
export const counterWith = (always: Fields, maybe: Fields = {}): AnswerSchema =>
  fields({ ...always, rule: text, limit: text, algorithm: text, ...ofCounter }, { ...ofSlots, ...maybe });

export const quota: AnswerSchema = fields(
  {
    domain: text,
    entries,
    assigned: oneOf('share', 'allow', 'deny', 'none', 'expired'),
    reportedMsAgo: number,
  },
  { proxy: text, rule: text, share: number, burst: number, rate: number, demand: number, used: number },
);

const keyCount = fields(
  { descriptor: text, hits: whole, atMostTooHighBy: number },
  { rule: text, entries, cut: onlyTrue, atMostTooLowBy: number },
);
export const shownKeys = listOf(keyCount);
