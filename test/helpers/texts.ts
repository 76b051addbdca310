import fc from 'fast-check';

/**
 * Characters that terminals interpret, that change the direction of text or end lines, and those of descriptor syntax.
 */
const special = fc.constantFrom(
  ...[
    '\u001b[2J',
    '\u001b]0;x\u0007',
    '\n',
    '\r',
    '\t',
    '\0',
    '\u007f',
    '\u009b',
    '\u0085',
    '\u2028',
    '\u202e',
    '\u2066',
  ],
  ...[',', '=', '\\', '\\x1b', "'", 'a', ' ', 'é', '🙂', '\ud800'],
);

/** Any text that a caller may send, often with those characters. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.array(special, { maxLength: 6 }).map((parts) => parts.join('')),
  fc.string({ unit: 'binary', maxLength: 20 }),
);
