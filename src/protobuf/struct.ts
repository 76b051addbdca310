import type { Json, JsonObject } from '../base/json.ts';

/** A decoded google.protobuf.Struct, whose fields protobufjs names in camelCase, unlike those of other messages. */
export interface WireStruct {
  readonly fields: { readonly [key: string]: WireValue };
}
export type WireValue =
  | { readonly nullValue: 0 }
  | { readonly boolValue: boolean }
  | { readonly numberValue: number }
  | { readonly stringValue: string }
  | { readonly structValue: WireStruct }
  | { readonly listValue: { readonly values: readonly WireValue[] } };

/** @see https://protobuf.dev/reference/protobuf/google.protobuf/#struct */
export function toStruct(object: JsonObject): WireStruct {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, toValue(value)])) };
}

function toValue(value: Json): WireValue {
  if (value === null) return { nullValue: 0 };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number') return { numberValue: value };
  if (typeof value === 'string') return { stringValue: value };
  if (isList(value)) return { listValue: { values: value.map(toValue) } };
  return { structValue: toStruct(value) };
}

/** The JSON object that a struct encodes. */
export function fromStruct({ fields }: WireStruct): JsonObject {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, fromValue(value)]));
}

function fromValue(value: WireValue): Json {
  if ('boolValue' in value) return value.boolValue;
  if ('numberValue' in value) return value.numberValue;
  if ('stringValue' in value) return value.stringValue;
  if ('listValue' in value) return value.listValue.values.map(fromValue);
  if ('structValue' in value) return fromStruct(value.structValue);
  return null;
}

const isList = (value: Json): value is readonly Json[] => Array.isArray(value);
