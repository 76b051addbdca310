/** A header field, with one character per octet. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  /** Octets of name and value plus 32, as HPACK and SETTINGS_MAX_HEADER_LIST_SIZE count it. */
  readonly size: number;
  /** Whether name and value have only characters that RFC 9113, 8.2.1 allows. */
  readonly isWellFormed: boolean;
}

const OVERHEAD = 32;

const token = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const invalidInValue = /[\0\r\n]|^[ \t]|[ \t]$/;

export const createHeaderField = (name: string, value: string): HeaderField => ({
  name,
  value,
  size: name.length + value.length + OVERHEAD,
  isWellFormed: token.test(name) && !invalidInValue.test(value),
});
