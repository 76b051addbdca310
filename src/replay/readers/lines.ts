/** Characters of a line that are read; the rest of a longer one is dropped, so that the line counts as broken. */
const MAX_LINE_CHARACTERS = 1_048_576;

/** Octets that hold as many characters and a byte order mark: a character of UTF-16 takes at most three. */
const MAX_LINE_BYTES = 3 * (MAX_LINE_CHARACTERS + 1);

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/** The lines of a text that arrives in pieces, those of a piece at a time; without their ends, empty ones included. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly string[]> {
  let begun: Uint8Array = new Uint8Array(0);
  let isFirst = true;
  const decoded = (octets: Buffer): string => {
    const text = octets.toString(); // a decoder of streams takes several times as long
    const isMarked = isFirst && text.startsWith(BYTE_ORDER_MARK);
    isFirst = false;
    return isMarked ? text.slice(1) : text;
  };
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(LINE_FEED); // which is no part of another character
    if (end < 0) {
      if (begun.length < MAX_LINE_BYTES) begun = Buffer.concat([begun, chunk]).subarray(0, MAX_LINE_BYTES);
      continue;
    }
    const text = decoded(Buffer.concat([begun, chunk.subarray(0, end)]));
    yield text.split('\n').map(trimmed);
    begun = chunk.subarray(end + 1);
  }
  const last = decoded(Buffer.from(begun));
  if (last !== '') yield [trimmed(last)];
}

function trimmed(line: string): string {
  const read = line.length > MAX_LINE_CHARACTERS ? line.slice(0, MAX_LINE_CHARACTERS) : line;
  return read.endsWith('\r') ? read.slice(0, -1) : read;
}
