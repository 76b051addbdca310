/** The type of a scalar in YAML 1.1. */
export type ScalarType = 'text' | 'integer' | 'float' | 'flag' | 'null';

const FLAGS = /^(y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;
const NULLS = /^(~|null|Null|NULL|)$/;
const INTEGER = /^[-+]?(0|[1-9][0-9]*|0[0-7]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)$/;
const FLOAT = /^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$/;

/** The type of a plain scalar in YAML 1.1, as Go's yaml.v2 reads it (including underscores in numbers). */
export function typeOf(text: string): ScalarType {
  if (NULLS.test(text)) return 'null';
  if (FLAGS.test(text)) return 'flag';
  if (!/^[-+.0-9]/.test(text)) return 'text';
  const digits = text.replaceAll('_', '');
  if (INTEGER.test(digits)) return fitsInt64(integerOf(text)) ? 'integer' : 'float';
  const decimal = text.startsWith('.') ? text : digits; // no underscores before the first digit of a fraction
  const isTooLarge = /[eE]/.test(decimal) && !Number.isFinite(Number(decimal));
  return FLOAT.test(decimal) && !isTooLarge ? 'float' : 'text';
}

const fitsInt64 = (value: bigint): boolean => BigInt.asIntN(64, value) === value;

/** The value of an integer scalar: `1_000` is 1000, `010` is 8, `0x1F` is 31. */
export function integerOf(text: string): bigint {
  const digits = text.replaceAll('_', '').replace(/^[-+]/, '');
  const magnitude = BigInt(/^0[0-7]+$/.test(digits) ? `0o${digits.slice(1)}` : digits);
  return text.startsWith('-') ? -magnitude : magnitude;
}

/** The value of a flag scalar: `yes`, `on`, `true` and `y` are true, in any case. */
export const flagOf = (text: string): boolean => /^(y|yes|true|on)$/i.test(text);
