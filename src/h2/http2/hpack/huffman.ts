/**
 * Code length in bits of each octet, and of EOS (256). The code is canonical, so the lengths define it. Within a
 * length, codes increase with their symbols, and longer codes continue where shorter ones end.
 *
 * @see https://www.rfc-editor.org/rfc/rfc7541#appendix-B
 */
const codeLengths = [
  ...[13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28],
  ...[28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15],
  ...[6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6],
  ...[15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22],
  ...[20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23],
  ...[23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22],
  ...[22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26],
  ...[27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27],
  ...[26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30],
];
const EOS = 256;
const NIBBLES = 16;

/** Layout of a decoder step for a state and four bits, with the next state and the symbol that the bits complete. */
const NEXT_STATE = 0x00ff;
const EMITS = 0x0100;
const FAILS = 0x0200;
const SYMBOL_SHIFT = 16;

let decoder: ReturnType<typeof buildDecoder> | undefined;

/**
 * Decodes a string, four bits at a time, to one character per octet (Latin-1).
 *
 * @returns undefined if it contains EOS, or if the padding is longer than 7 bits or not all ones (RFC 7541, 5.2)
 */
export function decodeHuffman(bytes: Buffer, from: number, to: number): string | undefined {
  decoder ??= buildDecoder(); // built on first use, for a faster start
  const { steps, mayEnd } = decoder;
  const decoded = Buffer.allocUnsafe((to - from) * 2); // the shortest code has 5 bits
  let length = 0;
  let state = 0;
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number; // within the buffer, as the caller checked
    for (const nibble of [byte >> 4, byte & 0x0f]) {
      const step = steps[state * NIBBLES + nibble] as number; // every state has all steps
      if (step & FAILS) return undefined;
      if (step & EMITS) decoded[length++] = step >> SYMBOL_SHIFT;
      state = step & NEXT_STATE;
    }
  }
  return mayEnd[state] ? decoded.toString('latin1', 0, length) : undefined;
}

/** Builds a step for every beginning of a code, the states, and every four bits, of which the codes need at least five. */
function buildDecoder(): { readonly steps: Uint32Array; readonly mayEnd: readonly boolean[] } {
  const symbols = new Map(assignCodes());
  const states = new Map<string, number>();
  for (const code of symbols.keys())
    for (let length = 0; length < code.length; length++) {
      const beginning = code.slice(0, length);
      if (!states.has(beginning)) states.set(beginning, states.size);
    }
  const steps = new Uint32Array(states.size * NIBBLES);
  for (const [beginning, state] of states)
    for (let nibble = 0; nibble < NIBBLES; nibble++) {
      let bits = beginning;
      let emitted = 0;
      for (const bit of nibble.toString(2).padStart(4, '0')) {
        bits += bit;
        const symbol = symbols.get(bits);
        if (symbol === undefined) continue;
        emitted = symbol === EOS ? FAILS : EMITS | (symbol << SYMBOL_SHIFT);
        bits = '';
      }
      steps[state * NIBBLES + nibble] = emitted | (states.get(bits) ?? FAILS);
    }
  return { steps, mayEnd: Array.from(states.keys(), (bits) => /^1{0,7}$/.test(bits)) };
}

/** Codes as texts of 0 and 1, with their symbols. */
function assignCodes(): readonly (readonly [code: string, symbol: number])[] {
  const byLength = codeLengths
    .map((bits, symbol) => ({ bits, symbol }))
    .sort((one, other) => one.bits - other.bits || one.symbol - other.symbol);
  let next = 0;
  let last = 0;
  return byLength.map(({ bits, symbol }) => {
    next *= 2 ** (bits - last);
    last = bits;
    return [(next++).toString(2).padStart(bits, '0'), symbol];
  });
}
