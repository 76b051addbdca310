/** A header field, an octet a character. */
export interface Field {
  readonly name: string;
  readonly value: string;
  /** As HPACK and SETTINGS_MAX_HEADER_LIST_SIZE count it: octets of both, and 32. */
  readonly size: number;
  /** Name and value are made of what RFC 9113, 8.2.1 allows; a pseudo-header's name is. */
  readonly isWellFormed: boolean;
}

const OVERHEAD = 32;

const token = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const wrongInValue = /[\0\r\n]|^[ \t]|[ \t]$/;

export const createField = (name: string, value: string): Field => ({
  name,
  value,
  size: name.length + value.length + OVERHEAD,
  isWellFormed: token.test(name) && !wrongInValue.test(value),
});
